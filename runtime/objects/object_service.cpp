#include "runtime/objects/object_service.h"

#include "runtime/objects/object_state.h"

namespace troupe {

ObjectService::ObjectService(ControlLoop& loop, ObjectServiceOptions options)
    : state_(std::make_shared<ObjectState>(loop, std::move(options))) {}
ObjectService::~ObjectService() noexcept(false) = default;

Result<void> ObjectService::start() { return state_->start(); }
const std::string& ObjectService::path() const { return state_->path(); }
std::uint16_t ObjectService::port() const { return state_->port(); }
void ObjectService::named(NodeId node, const std::string& name) { state_->named(node, name); }
void ObjectService::joined(wire::Membership::Client membership) { state_->joined(kj::mv(membership)); }
void ObjectService::head_lost() { state_->head_lost(); }
ObjectHost& ObjectService::host() { return *state_; }

}  // namespace troupe
