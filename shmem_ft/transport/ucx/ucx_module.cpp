#include "shmem_ft/transport/net/fabric_build.hpp"
#include "shmem_ft/transport/net/fabric_module.hpp"
#include "shmem_ft/transport/ucx/ucx_fabric.hpp"

const int sft_fabric_layout = sft::kFabricLayout;

sft::Fabric* sft_make_fabric() { return new sft::UcxFabric; }
