// one_image.cpp - a first program in C++17: one_image_cpp FILE [ENDPOINT] asks the pool's digits model which digit the picture shows.
#include <iostream>

#include <penstock/penstock.hpp>

int main(int argc, char **argv)
try {
    if (argc < 2) {
        std::cerr << "usage: one_image_cpp FILE [ENDPOINT]\n";
        return 2;
    }
    auto pool = penstock::client::connect(argc > 2 ? argv[2] : "");
    auto answer = pool.run(penstock::request("digits").input(pool.picture("digits", argv[1])).top_k(3));
    for (const pen_class &one : answer.top(3)) {
        std::cout << argv[1] << ": " << one.name << " (" << one.score << ")\n";
    }
} catch (const penstock::error &e) {
    std::cerr << pen_status_name(e.status()) << ": " << e.what() << '\n';
    return 1;
}
