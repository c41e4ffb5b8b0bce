// What ranks of a generation show each other.
#include <algorithm>

#include "gcs/groups/group_table.h"

namespace troupe::gcs {

void GroupTable::post(GroupPost post, Time now, GroupActions& out) {
  auto refuse = [&](ErrorKind kind, std::string why) {
    out.push_back(GroupReply{post.request, Error(kind, std::move(why))});
  };
  if (post.board >= kBoards || post.bytes.size() > kMostBytes) {
    return refuse(ErrorKind::invalid_argument, "a rank may show " + std::to_string(kMostBytes) +
                                                   " bytes on each of " + std::to_string(kBoards) +
                                                   " boards");
  }
  auto at = groups_.find(post.group);
  if (at == groups_.end() || at->second.generation != post.generation || at->second.ranks.empty()) {
    return refuse(ErrorKind::unavailable,
                  "generation " + std::to_string(post.generation) + " of the group is over");
  }
  Group& group = at->second;
  if (post.rank >= group.ranks.size() || group.ranks[post.rank].process != post.process) {
    return refuse(ErrorKind::invalid_argument,
                  "this process does not hold rank " + std::to_string(post.rank) + " of the group");
  }
  Board& board = group.boards[post.board];
  board.posts.by_rank[post.rank] = std::move(post.bytes);
  Time deadline = now + std::max<Time>(post.patience, 0);
  board_deadlines_.insert({deadline, post.group, post.board});
  board.readers.push_back({std::move(post), deadline});
  if (board.posts.by_rank.size() < group.ranks.size()) return;
  for (const Reader& reader : board.readers) out.push_back(GroupReply{reader.post.request, board.posts});
  board.readers.clear();
}

void GroupTable::close_boards(Group& group, const Error& why, GroupActions& out) {
  for (auto& [number, board] : group.boards) {
    for (const Reader& reader : board.readers) {
      if (reader.post.partial)
        out.push_back(GroupReply{reader.post.request, board.posts});
      else
        out.push_back(GroupReply{reader.post.request, why});
    }
  }
  group.boards.clear();
}

void GroupTable::tick_boards(Time now, GroupActions& out) {
  for (; !board_deadlines_.empty() && std::get<Time>(*board_deadlines_.begin()) <= now;
       board_deadlines_.erase(board_deadlines_.begin())) {
    auto [deadline, id, number] = *board_deadlines_.begin();
    auto at = groups_.find(id);
    if (at == groups_.end() || at->second.boards.count(number) == 0) continue;
    const Group& group = at->second;
    Board& board = at->second.boards.at(number);
    std::string missing;
    for (std::uint32_t rank = 0; rank < group.ranks.size(); ++rank) {
      if (board.posts.by_rank.count(rank) > 0) continue;
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
    std::erase_if(board.readers, [&](const Reader& reader) {
      if (reader.deadline > now) return false;
      if (reader.post.partial) {
        out.push_back(GroupReply{reader.post.request, board.posts});
      } else {
        out.push_back(GroupReply{
            reader.post.request,
            Error(ErrorKind::deadline_exceeded, missing + " of the group did not connect within " +
                                                    std::to_string(reader.post.patience) + " ms")});
      }
      return true;
    });
  }
}

}  // namespace troupe::gcs
