// The probe's load on the control store: actors are made and called without a pause while the store fails.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace probe {

const std::map<std::string, std::function<void()>>& store_cases();

}  // namespace probe
