#include "core/base/pool.h"

#include <cstdlib>

namespace troupe {
namespace {

constexpr std::size_t kStep = 64;       // size classes
constexpr std::size_t kLargest = 1024;  // beyond: malloc
constexpr unsigned kKeep = 4096;        // blocks a list keeps

struct Lists {
  struct Node {
    Node* next;
  };
  Node* head[kLargest / kStep] = {};
  unsigned count[kLargest / kStep] = {};

  ~Lists() {
    for (Node*& list : head) {
      while (list != nullptr) {
        Node* next = list->next;
        std::free(list);
        list = next;
      }
    }
    dead = true;
  }
  static thread_local bool dead;  // objects may outlive the lists at a thread's end
};

thread_local bool Lists::dead = false;
thread_local Lists lists;

constexpr std::size_t slot(std::size_t size) { return (size - 1) / kStep; }

}  // namespace

void* pool_allocate(std::size_t size) {
#if !defined(__SANITIZE_ADDRESS__)
  if (size != 0 && size <= kLargest && !Lists::dead) {
    std::size_t s = slot(size);
    if (Lists::Node* node = lists.head[s]) {
      lists.head[s] = node->next;
      --lists.count[s];
      return node;
    }
    size = (s + 1) * kStep;
  }
#endif
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void pool_free(void* block, std::size_t size) noexcept {
#if !defined(__SANITIZE_ADDRESS__)
  if (size != 0 && size <= kLargest && !Lists::dead) {
    std::size_t s = slot(size);
    if (lists.count[s] < kKeep) {
      auto* node = static_cast<Lists::Node*>(block);
      node->next = lists.head[s];
      lists.head[s] = node;
      ++lists.count[s];
      return;
    }
  }
#else
  (void)size;
#endif
  std::free(block);
}

}  // namespace troupe
