// troupe completion bash: made from the commands and options that this executable knows.
#include <cstdio>

#include "tools/troupe/command.h"

namespace troupe::tools {
namespace {

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) words += " --" + name;
  }
  if (app.get_name() == "list") words += " nodes actors jobs";
  if (app.get_name() == "completion") words += " bash";
  return words.empty() ? words : words.substr(1);
}

void print_bash(const CLI::App& root) {
  std::string commands, cases;
  for (const auto* sub : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands += (commands.empty() ? "" : " ") + sub->get_name();
    cases += "    " + sub->get_name() + ") words=\"" + words_of(*sub) + "\" ;;\n";
  }
  std::printf(
      "# bash completion for troupe; use it with: source <(troupe completion bash)\n"
      "_troupe() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"%s\"\n"
      "  [ \"$COMP_CWORD\" -gt 1 ] && case \"${COMP_WORDS[1]}\" in\n%s  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  [ \"${COMP_WORDS[1]}\" = run ] && [ \"$COMP_CWORD\" -gt 1 ] && [ \"${word#-}\" = \"$word\" ] &&\n"
      "    COMPREPLY+=($(compgen -f -- \"$word\"))\n"
      "  return 0\n"
      "}\n"
      "complete -o filenames -F _troupe troupe\n",
      commands.c_str(), cases.c_str());
}

}  // namespace

Run add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "bash")->required()->check(CLI::IsMember({"bash"}));
  return [&app, shell] {
    print_bash(*app.get_parent());
    return kOk;
  };
}

}  // namespace troupe::tools
