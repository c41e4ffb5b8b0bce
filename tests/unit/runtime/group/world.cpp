#include "tests/unit/runtime/group/world.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/base/clock.h"

namespace troupe::test {

namespace {
const Token kToken = *Token::random();
}  // namespace
const Token& test_token() { return kToken; }

class MeetingExchange final : public Exchange {
 public:
  MeetingExchange(Meeting& meeting, int rank) : meeting_(meeting), rank_(static_cast<std::size_t>(rank)) {}

  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override {
    std::unique_lock lock(meeting_.mutex_);
    meeting_.addresses_[rank_] = mine;
    meeting_.changed_.notify_all();
    auto ready = [&] {
      for (auto& address : meeting_.addresses_)
        if (!address) return cancelled_.has_value();
      return true;
    };
    meeting_.changed_.wait_for(lock, std::chrono::nanoseconds(deadline_ns - steady_ns()), ready);
    if (cancelled_) return *cancelled_;
    std::vector<std::string> all;
    std::string missing;
    for (std::size_t i = 0; i < meeting_.addresses_.size(); ++i) {
      if (!meeting_.addresses_[i])
        missing += " " + std::to_string(i);
      else
        all.push_back(*meeting_.addresses_[i]);
    }
    if (!missing.empty()) return Error(ErrorKind::deadline_exceeded, "these ranks did not come:" + missing);
    return all;
  }

  void cancel(const Error& why) override {
    std::lock_guard lock(meeting_.mutex_);
    cancelled_ = why;
    meeting_.changed_.notify_all();
  }

  std::vector<RankReport> collect(const RankReport& mine, std::int64_t deadline_ns) override {
    std::unique_lock lock(meeting_.mutex_);
    meeting_.reports_[rank_] = mine;
    meeting_.changed_.notify_all();
    meeting_.changed_.wait_for(lock, std::chrono::nanoseconds(deadline_ns - steady_ns()), [&] {
      for (auto& report : meeting_.reports_)
        if (!report) return cancelled_.has_value();
      return true;
    });
    std::vector<RankReport> all;
    for (auto& report : meeting_.reports_)
      if (report) all.push_back(*report);
    return all;
  }

 private:
  Meeting& meeting_;
  const std::size_t rank_;
  std::optional<Error> cancelled_;
};

std::shared_ptr<Exchange> Meeting::exchange(int rank) {
  return std::make_shared<MeetingExchange>(*this, rank);
}

void Meeting::declare(RankReport report) {
  std::lock_guard lock(mutex_);
  auto rank = static_cast<std::size_t>(report.rank);
  reports_[rank] = std::move(report);
  changed_.notify_all();
}

namespace {

class FolderExchange final : public Exchange {
 public:
  FolderExchange(std::filesystem::path folder, int rank, int size)
      : folder_(std::move(folder)), rank_(rank), size_(size) {}

  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override {
    write("address", mine);
    for (;;) {
      std::vector<std::string> all = read_all("address");
      if (all.size() == static_cast<std::size_t>(size_)) return all;
      if (cancelled_) return why_;
      if (steady_ns() > deadline_ns) return Error(ErrorKind::deadline_exceeded, "not all ranks came");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void cancel(const Error& why) override {
    why_ = why;
    cancelled_ = true;
  }
  std::vector<RankReport> collect(const RankReport& mine, std::int64_t deadline_ns) override {
    write("report", encode_report(mine));
    while (steady_ns() < deadline_ns && !cancelled_ &&
           read_all("report").size() < static_cast<std::size_t>(size_))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<RankReport> all;
    for (const std::string& bytes : read_all("report"))
      if (auto report = decode_report(bytes)) all.push_back(*report);
    return all;
  }

 private:
  void write(const std::string& what, const std::string& bytes) {
    auto path = folder_ / (what + std::to_string(rank_)), draft = folder_ / ("draft" + std::to_string(rank_));
    std::ofstream(draft, std::ios::binary) << bytes;
    std::filesystem::rename(draft, path);
  }
  std::vector<std::string> read_all(const std::string& what) {
    std::vector<std::string> all;
    for (int i = 0; i < size_; ++i) {
      std::ifstream file(folder_ / (what + std::to_string(i)), std::ios::binary);
      if (file) all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return all;
  }

  const std::filesystem::path folder_;
  const int rank_, size_;
  Error why_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace

std::shared_ptr<Exchange> folder_exchange(const std::filesystem::path& folder, int rank, int size) {
  return std::make_shared<FolderExchange>(folder, rank, size);
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "troupe_group_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Watchdog::Watchdog(std::chrono::seconds limit)
    : thread_([this, limit] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, limit, [&] { return over_; })) return;
        std::fprintf(stderr, "watchdog: the test hangs\n");
        std::abort();
      }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void run_ranks(int size, const std::function<void(Communicator&)>& f, CommunicatorOptions options) {
  Watchdog watchdog;
  Meeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions mine = options;
      mine.rank = rank;
      mine.size = size;
      if (!mine.token) mine.token = test_token();
      Communicator group(mine, meeting.exchange(rank));
      Result<void> connected = group.connect().wait();
      EXPECT_TRUE(connected) << text_of(connected);
      if (connected) f(group);
    });
  }
  for (auto& thread : threads) thread.join();
}

std::string text_of(const Result<void>& result) { return result ? "" : result.error().describe(); }
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

namespace {

std::byte* address_of(const Tensor& tensor, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int i = tensor.rank() - 1; i >= 0; --i) {
    offset += flat % tensor.shape()[i] * tensor.strides()[i];
    flat /= tensor.shape()[i];
  }
  return static_cast<std::byte*>(tensor.data()) + offset * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f16:
      return f(float16());
    case DType::bf16:
      return f(bfloat16());
    case DType::f32:
      return f(float());
    case DType::f64:
      return f(double());
    case DType::i8:
      return f(std::int8_t());
    case DType::i16:
      return f(std::int16_t());
    case DType::i32:
      return f(std::int32_t());
    case DType::i64:
      return f(std::int64_t());
    case DType::u8:
      return f(std::uint8_t());
    case DType::u16:
      return f(std::uint16_t());
    case DType::u32:
      return f(std::uint32_t());
    case DType::u64:
      return f(std::uint64_t());
    case DType::boolean:
      return f(bool());
  }
}

}  // namespace

void set(const Tensor& tensor, std::int64_t flat, double value) {
  with_type(tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    T converted;
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      converted = T(static_cast<float>(value));
    else if constexpr (std::is_integral_v<T>)
      converted = static_cast<T>(static_cast<std::int64_t>(value));
    else
      converted = static_cast<T>(value);
    std::memcpy(address_of(tensor, flat), &converted, sizeof converted);
  });
}

double get(const Tensor& tensor, std::int64_t flat) {
  double value = 0;
  with_type(tensor.dtype(), [&](auto type) {
    std::memcpy(static_cast<void*>(&type), address_of(tensor, flat), sizeof type);
    value =
        static_cast<double>(static_cast<std::conditional_t<(sizeof type > 2), decltype(type), float>>(type));
  });
  return value;
}

Tensor with_gaps(DType dtype, std::int64_t count) {
  return Tensor::zeros(dtype, {count, 3}).slice(1, 1, 2).transpose();
}

}  // namespace troupe::test
