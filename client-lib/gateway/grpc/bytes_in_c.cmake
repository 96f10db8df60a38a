# Writes the bytes of the file FROM as a C array to TO: descriptor_set, descriptor_set_bytes (grpc_reflection.h).
file(READ ${FROM} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${TO} "#include <stddef.h>\n\nextern const unsigned char descriptor_set[];\nextern const size_t descriptor_set_bytes;\n"
  "const unsigned char descriptor_set[] = {\n${bytes}};\nconst size_t descriptor_set_bytes = sizeof descriptor_set;\n")
