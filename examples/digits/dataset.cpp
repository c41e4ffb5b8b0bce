#include "dataset.h"

#include <tbb/parallel_for.h>
#include <zlib.h>

#include <atomic>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace digits {
namespace {

constexpr std::size_t kMostBytes = 64 << 20;

std::string read_text(const std::string& path) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::string text;
  char buffer[1 << 16];
  for (int n; (n = gzread(file.get(), buffer, sizeof buffer)) != 0;) {
    if (n < 0 || text.size() > kMostBytes)
      throw std::runtime_error(path + " is not a gzip file of this size");
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

std::vector<std::string_view> lines_of(const std::string& text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    if (end == text.npos) end = text.size();
    if (end > at) lines.emplace_back(text.data() + at, end - at);
    at = end + 1;
  }
  return lines;
}

bool parse_line(std::string_view line, float* pixels, std::uint8_t& label) {
  const char* at = line.data();
  const char* end = at + line.size();
  for (std::size_t i = 0; i <= kInputs; ++i) {
    // The label is written as a floating point number in some editions of the file.
    unsigned value = 0;
    auto [next, bad] = std::from_chars(at, end, value);
    if (bad != std::errc{}) return false;
    if (i < kInputs) {
      if (value > 16 || next == end || *next != ',') return false;
      pixels[i] = static_cast<float>(value) / 16.0f;
      at = next + 1;
    } else {
      label = static_cast<std::uint8_t>(value);
      return value < kClasses;
    }
  }
  return false;
}

}  // namespace

Rows load_rows(const std::string& path, std::size_t begin, std::size_t end) {
  std::string text = read_text(path);
  auto lines = lines_of(text);
  if (end > lines.size() || begin > end) throw std::runtime_error(path + " has too few rows");
  Rows rows;
  rows.pixels.resize((end - begin) * kInputs);
  rows.labels.resize(end - begin);
  std::atomic<bool> good{true};
  tbb::parallel_for(begin, end, [&](std::size_t row) {
    std::size_t to = row - begin;
    if (!parse_line(lines[row], rows.pixels.data() + to * kInputs, rows.labels[to])) good = false;
  });
  if (!good) throw std::runtime_error(path + " has rows that are not 64 pixels and a digit");
  return rows;
}

std::size_t row_count(const std::string& path) {
  std::string text = read_text(path);
  return lines_of(text).size();
}

}  // namespace digits
