// User types on the wire: cereal's serialization functions over our buffers, and Boost.PFR so that a plain
// aggregate needs none. Both sides run the same executable (checked when they connect), so values lie in
// memory order.
#pragma once

#include <boost/pfr.hpp>
#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/chrono.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <type_traits>

#include "core/codec/buffer.h"

namespace troupe {

class OutArchive : public cereal::OutputArchive<OutArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit OutArchive(Writer& to) : OutputArchive(this), to_(to) {}
  void bytes(const void* data, std::size_t size) { to_.append(data, size); }
  Writer& writer() { return to_; }

 private:
  Writer& to_;
};

template <class T>
void decode(Reader& from, T& value);

class InArchive : public cereal::InputArchive<InArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit InArchive(Reader& from) : InputArchive(this), from_(from) {}
  void bytes(void* data, std::size_t size) { from_.read(data, size); }
  template <class T>
  void number(T& value) {
    decode(from_, value);
  }
  std::size_t remaining() const { return from_.remaining(); }
  Reader& reader() { return from_; }

 private:
  Reader& from_;
};

// An archive that nobody writes serialization for: tells what a type brings along by itself.
class ProbeArchive : public cereal::OutputArchive<ProbeArchive, cereal::AllowEmptyClassElision> {
 public:
  ProbeArchive() : OutputArchive(this) {}
};

template <class T>
inline constexpr bool brings_serialization =
    cereal::traits::has_member_serialize<T, ProbeArchive>::value ||
    cereal::traits::has_non_member_serialize<T, ProbeArchive>::value ||
    cereal::traits::has_member_save<T, ProbeArchive>::value ||
    cereal::traits::has_non_member_save<T, ProbeArchive>::value ||
    cereal::traits::has_member_save_minimal<T, ProbeArchive>::value ||
    cereal::traits::has_non_member_save_minimal<T, ProbeArchive>::value;

template <class Archive>
inline constexpr bool is_our_archive =
    std::is_same_v<Archive, OutArchive> || std::is_same_v<Archive, InArchive>;

template <class Archive, class T>
concept PlainAggregate = is_our_archive<Archive> && std::is_aggregate_v<T> && !std::is_array_v<T> &&
                         !std::is_empty_v<T> && !std::is_union_v<T> && !brings_serialization<T>;

template <class T>
void encode(Writer& to, const T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    to.append(&value, sizeof value);
  } else {
    OutArchive archive(to);
    archive(value);
  }
}

// A byte that is no bool must not become one.
inline void read_bool(Reader& from, bool& value) {
  std::uint8_t byte = 0;
  from.read(&byte, 1);
  if (byte > 1) throw DecodeError("a message has a byte that is no bool where one belongs");
  value = byte != 0;
}

template <class T>
void decode(Reader& from, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    read_bool(from, value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    from.read(&value, sizeof value);
  } else {
    InArchive archive(from);
    archive(value);
  }
}

}  // namespace troupe

namespace cereal {

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(troupe::OutArchive& archive, const T& value) {
  archive.bytes(&value, sizeof value);
}

template <class T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(troupe::InArchive& archive, T& value) { archive.number(value); }

template <class T>
void CEREAL_SERIALIZE_FUNCTION_NAME(troupe::OutArchive& archive, NameValuePair<T>& pair) {
  archive(pair.value);
}

template <class T>
void CEREAL_SERIALIZE_FUNCTION_NAME(troupe::InArchive& archive, NameValuePair<T>& pair) {
  archive(pair.value);
}

template <class T>
void CEREAL_SERIALIZE_FUNCTION_NAME(troupe::OutArchive& archive, SizeTag<T>& tag) {
  archive(tag.size);
}

// A size beyond what is left in the message is a lie: refuse it before memory is taken for it.
template <class T>
void CEREAL_SERIALIZE_FUNCTION_NAME(troupe::InArchive& archive, SizeTag<T>& tag) {
  archive(tag.size);
  if (tag.size > archive.remaining())
    throw troupe::DecodeError("a container claims more elements than bytes");
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(troupe::OutArchive& archive, const BinaryData<T>& data) {
  archive.bytes(data.data, static_cast<std::size_t>(data.size));
}

template <class T>
void CEREAL_LOAD_FUNCTION_NAME(troupe::InArchive& archive, BinaryData<T>& data) {
  if constexpr (std::is_same_v<std::remove_pointer_t<std::remove_reference_t<T>>, bool>) {
    auto* bools = static_cast<bool*>(data.data);
    for (std::uint64_t i = 0; i < data.size; ++i) archive.number(bools[i]);
  } else {
    archive.bytes(data.data, static_cast<std::size_t>(data.size));
  }
}

template <class Archive, class T>
requires troupe::PlainAggregate<Archive, T>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, T& value) {
  boost::pfr::for_each_field(value, [&](auto& field) { archive(field); });
}

}  // namespace cereal

CEREAL_REGISTER_ARCHIVE(troupe::OutArchive)
CEREAL_REGISTER_ARCHIVE(troupe::InArchive)
CEREAL_SETUP_ARCHIVE_TRAITS(troupe::InArchive, troupe::OutArchive)
