#include "runtime/process/journals.h"

#include <sys/stat.h>

#include "core/config/home.h"
#include "runtime/process/store_journal.h"

namespace troupe {

// The folder of the actor's files. One that other nodes see is noted in the node's own, so that the agent
// removes it when the actor is dead for good.
Result<std::string> Journals::prepare(const Durability& plan, const JournalOwner& owner) {
  if (auto made = make_private_directory(folder_); !made) return made.error();
  std::string name = journal_name(owner);
  if (plan.place == Durability::Place::node) return folder_ + "/" + name;
  struct stat info {};
  if (::stat(plan.path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error(ErrorKind::not_found,
                 "the shared folder " + plan.path + " of the actor's journal is not there on this node");
  }
  std::string shared = plan.path + "/" + name;
  if (auto noted = replace_file(folder_ + "/" + name + kSharedNote, shared); !noted) return noted.error();
  return shared;
}

void Journals::open(const Durability& plan, const JournalOwner& owner, Done done) {
  if (plan.place == Durability::Place::store) {
    StoreJournal::open(loop_, plane_, owner, std::move(done));
    return;
  }
  auto folder = prepare(plan, owner);
  if (!folder) {
    done(folder.error());
    return;
  }
  if (!thread_) thread_ = std::make_unique<JournalThread>();
  FileJournal::open(*thread_, *folder, owner, [this, done = std::move(done)](Result<OpenedJournal> opened) {
    loop_.post([done, opened = std::make_shared<Result<OpenedJournal>>(std::move(opened))] {
      done(std::move(*opened));
    });
  });
}

}  // namespace troupe
