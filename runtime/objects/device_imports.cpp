#include "runtime/objects/device_imports.h"

#include <algorithm>

namespace troupe {

DeviceImports& DeviceImports::get() {
  static auto* only = new DeviceImports;  // tensors may outlive everything else
  return *only;
}

Result<std::shared_ptr<DeviceImports::Import>> DeviceImports::open(DeviceDriver& driver, int device,
                                                                   const ExportRecord& record,
                                                                   Ref<ObjectHandle> object) {
  std::unique_lock turn(turn_, kPatience);
  if (!turn)
    return Error(
        ErrorKind::deadline_exceeded,
        "cuda:" + std::to_string(device) + " does not answer: memory of another process cannot be mapped");
  std::string key = std::to_string(device) + ':';
  key.append(reinterpret_cast<const char*>(record.handle.data()), record.handle.size());
  auto made = std::make_shared<Import>();
  std::unique_lock lock(mutex_);
  auto known = by_key_.find(key);
  if (known == by_key_.end()) {
    lock.unlock();
    auto base = driver.open(device, record.handle);
    if (!base) return base.error();
    lock.lock();
    Mapping mapping{++made_, record.size, &driver, device, static_cast<std::byte*>(*base), key, {}};
    known = by_key_.emplace(key, mapping.number).first;
    mappings_.emplace(mapping.number, std::move(mapping));
  }
  Mapping& mapping = mappings_.at(known->second);
  made->base = mapping.base;
  made->device = device;
  made->record = record;
  made->object = std::move(object);
  made->number = mapping.number;
  mapping.imports.push_back(made.get());
  return made;
}

DeviceImports::Import::~Import() {
  if (number != 0) DeviceImports::get().close(*this);
}

void DeviceImports::close(Import& import) {
  // However long it takes: the memory may not be given back by its owner before.
  std::lock_guard turn(turn_);
  Mapping over;
  {
    std::lock_guard lock(mutex_);
    auto at = mappings_.find(import.number);
    auto& imports = at->second.imports;
    imports.erase(std::find(imports.begin(), imports.end(), &import));
    if (!imports.empty()) return;
    over = std::move(at->second);
    by_key_.erase(over.key);
    mappings_.erase(at);
  }
  over.driver->close(over.device, over.base);
}

DeviceImports::Source DeviceImports::source(const void* data, Span bytes) {
  auto* at = static_cast<const std::byte*>(data);
  std::lock_guard lock(mutex_);
  for (auto& [number, mapping] : mappings_) {
    if (at < mapping.base || at >= mapping.base + mapping.size) continue;
    std::int64_t offset = at - mapping.base;
    for (Import* import : mapping.imports) {
      if (offset + bytes.begin < static_cast<std::int64_t>(import->record.begin) ||
          offset + bytes.end > static_cast<std::int64_t>(import->record.end))
        continue;
      return {import->object, static_cast<std::uint64_t>(offset)};
    }
  }
  return {};
}

std::size_t DeviceImports::mappings() {
  std::lock_guard lock(mutex_);
  return mappings_.size();
}

}  // namespace troupe
