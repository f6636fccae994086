# fish completion for rocattach-watch: one file has it for both programs.
source (status dirname)/rocattach.fish
