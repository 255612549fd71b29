#include "transport/ucx/ucx_devices.hpp"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace sft {
namespace {

constexpr std::string_view kLoopback = "lo";

int number_in(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    char text[32];
    return file != nullptr && std::fgets(text, sizeof text, file.get()) != nullptr
               ? static_cast<int>(std::strtol(text, nullptr, 0))
               : 0;
}

void add(std::vector<std::string>& names, std::string name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
    }
}

std::string joined(const std::vector<std::string>& names, const char* between) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : between) + name;
    }
    return text;
}

// UCX tells it as text only: lines with "resource 0 : md 0 dev 0 flags -- tcp/eth0".
std::string context_text(ucp_context_h context) {
    char* memory = nullptr;
    std::size_t bytes = 0;
    std::FILE* file = ::open_memstream(&memory, &bytes);
    if (file == nullptr) {
        return {};
    }
    ::ucp_context_print_info(context, file);
    (void)std::fclose(file);
    std::string text(memory, bytes);
    std::free(memory);
    return text;
}

}  // namespace

std::string ucx_devices_of(const std::string& interface) {
    std::string devices = interface;
    const std::string folder = "/sys/class/net/" + interface;
    const std::unique_ptr<DIR, int (*)(DIR*)> adapters(::opendir((folder + "/device/infiniband").c_str()), &::closedir);
    if (adapters == nullptr) {
        return devices;
    }
    const int port = number_in(folder + "/dev_port") + 1;
    while (const dirent* adapter = ::readdir(adapters.get())) {
        if (adapter->d_name[0] != '.') {
            devices += "," + std::string(adapter->d_name) + ":" + std::to_string(port);
        }
    }
    return devices;
}

UcxResources ucx_resources(ucp_context_h context) {
    const std::string text = context_text(context);
    std::vector<std::string> transports;
    std::vector<std::string> devices;
    bool has_loopback = false;
    std::size_t at = 0;
    while ((at = text.find("resource", at)) != std::string::npos) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        at = end;
        const std::size_t slash = line.rfind('/');
        if (slash == std::string_view::npos) {
            continue;
        }
        const std::string_view transport = line.substr(line.rfind(' ', slash) + 1, slash - line.rfind(' ', slash) - 1);
        const std::string_view device = line.substr(slash + 1, line.find_first_of(" \t", slash) - slash - 1);
        if (transport == "self" || device == "memory") {
            continue;
        }
        add(transports, std::string(transport));
        if (device == kLoopback) {
            has_loopback = true;
        } else {
            add(devices, std::string(device));
        }
    }
    UcxResources resources;
    resources.all_but_loopback = has_loopback ? joined(devices, ",") : "";
    if (has_loopback) {
        devices.emplace_back(kLoopback);
    }
    resources.is_tcp_only = transports == std::vector<std::string>{"tcp"};
    if (!transports.empty()) {
        resources.text = joined(transports, ", ") + " over " + joined(devices, ", ");
    }
    return resources;
}

}  // namespace sft
