// Small objects of the call path come from free lists of the thread that asks and go to those of the thread
// that frees, so the steady state allocates nothing. Each list keeps a bounded number of blocks; the rest is
// malloc's. Any thread. Derive from Pooled to use it.
#pragma once

#include <cstddef>
#include <new>

namespace troupe {

void* pool_allocate(std::size_t size);
void pool_free(void* block, std::size_t size) noexcept;

struct Pooled {
  static void* operator new(std::size_t size) { return pool_allocate(size); }
  static void operator delete(void* block, std::size_t size) noexcept { pool_free(block, size); }
};

}  // namespace troupe
