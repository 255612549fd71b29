#include "transport/net/fabric_build.hpp"
#include "transport/net/fabric_module.hpp"
#include "transport/ucx/ucx_fabric.hpp"

const int sft_fabric_layout = sft::kFabricLayout;

sft::Fabric* sft_make_fabric() { return new sft::UcxFabric; }
