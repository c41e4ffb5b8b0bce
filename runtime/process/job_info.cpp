#include "runtime/process/job_info.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "runtime/process/fingerprint.h"

extern char** environ;

namespace troupe {
namespace {

// Workers run in the driver's environment, less what names the cluster: the agent gives them that.
bool is_passed_on(std::string_view entry) {
  return entry.rfind("TROUPE_HEAD=", 0) != 0 && entry.rfind("TROUPE_TOKEN=", 0) != 0 &&
         entry.rfind("TROUPE_ROLE=", 0) != 0 && entry.rfind("TROUPE_WORKER=", 0) != 0;
}

}  // namespace

void write_job_info(wire::JobInfo::Builder to, const std::string& program,
                    const std::vector<std::string>& arguments, const LinkIdentity& self) {
  to.setJob(self.job.value);
  to.setName(std::filesystem::path(program).filename().c_str());
  to.setExecutable(executable_path().c_str());
  to.setFingerprint(self.fingerprint);
  auto args = to.initArguments(static_cast<unsigned>(arguments.size()));
  for (unsigned i = 0; i < args.size(); ++i) args.set(i, arguments[i].c_str());
  std::vector<const char*> passed;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (is_passed_on(*entry)) passed.push_back(*entry);
  }
  auto environment = to.initEnvironment(static_cast<unsigned>(passed.size()));
  for (unsigned i = 0; i < environment.size(); ++i) environment.set(i, passed[i]);
  std::error_code ignored;
  to.setDirectory(std::filesystem::current_path(ignored).c_str());
  to.setHostId(self.host_id.c_str());
  to.setPid(::getpid());
}

}  // namespace troupe
