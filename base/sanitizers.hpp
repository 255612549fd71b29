// Whether this is compiled with a sanitizer. GCC says so by macros, Clang by features.
#pragma once

#ifdef __has_feature
#define SFT_HAS_FEATURE(name) __has_feature(name)
#else
#define SFT_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SFT_HAS_FEATURE(address_sanitizer)
#define SFT_ADDRESS_SANITIZER 1
#else
#define SFT_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || SFT_HAS_FEATURE(thread_sanitizer)
#define SFT_THREAD_SANITIZER 1
#else
#define SFT_THREAD_SANITIZER 0
#endif

#undef SFT_HAS_FEATURE
