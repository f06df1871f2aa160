// The program. Everything else is in libtritonserver.so beside it, because backends ask the linker for a library of that name.
int galatea_host(int argc, char **argv);
int main(int argc, char **argv) { return galatea_host(argc, argv); }
