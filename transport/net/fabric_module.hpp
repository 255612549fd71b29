// What a module (transport_NAME.so) offers to the loader in fabrics.cpp. A module must not need anything of the
// library, which hides its symbols: what it uses of base/ is compiled into it.
#pragma once

#include "transport/fabric.hpp"

extern "C" {

// kFabricLayout of the build that the module belongs to.
__attribute__((visibility("default"))) extern const int sft_fabric_layout;

// A new fabric, which the caller owns and deletes; not opened yet.
__attribute__((visibility("default"))) sft::Fabric* sft_make_fabric();

}  // extern "C"
