// Ranks of a group as threads of this process, or as processes that meet in a folder.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/group/communicator.h"

namespace troupe::test {

// Of all groups of this process and those it forks.
const Token& test_token();

// Where ranks that are threads meet.
class Meeting {
 public:
  explicit Meeting(int size) : addresses_(static_cast<std::size_t>(size)), reports_(addresses_.size()) {}
  std::shared_ptr<Exchange> exchange(int rank);
  // What collect() tells of a rank that does not report.
  void declare(RankReport report);

 private:
  friend class MeetingExchange;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::string>> addresses_;
  std::vector<std::optional<RankReport>> reports_;
};

// Where ranks that are processes meet: a file a rank.
std::shared_ptr<Exchange> folder_exchange(const std::filesystem::path& folder, int rank, int size);

// A folder of its own that is removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Runs f for each rank on a thread of its own, with a connected communicator, and ends the process when it
// takes longer than a minute: a hang is a failure that says where.
void run_ranks(int size, const std::function<void(Communicator&)>& f, CommunicatorOptions options = {});

// Ends the process with a message unless it is dropped in time.
class Watchdog {
 public:
#if defined(__SANITIZE_THREAD__)
  static constexpr std::chrono::seconds kLimit{500};  // ten times as slow
#else
  static constexpr std::chrono::seconds kLimit{100};
#endif
  explicit Watchdog(std::chrono::seconds limit = kLimit);
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

std::string text_of(const Result<void>& result);  // "" when it is good
bool contains(const std::string& text, const std::string& part);

// Elements as numbers, of any dtype and strides.
void set(const Tensor& tensor, std::int64_t flat, double value);
double get(const Tensor& tensor, std::int64_t flat);

// A tensor of so many elements that does not lie in one piece.
Tensor with_gaps(DType dtype, std::int64_t count);

}  // namespace troupe::test
