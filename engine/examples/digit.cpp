// digit.cpp - the same in C++17: digit_cpp MODEL says which digit a picture of its own shows. Handles are unique pointers; the answer comes without waiting.
#include <algorithm>
#include <array>
#include <future>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

#include <penstock/backends.h>
#include <penstock/tensors.h>

namespace {

struct closer {
    void operator()(pen_model *model) const { pen_model_close(model); }
    void operator()(pen_tensor_handle *tensor) const { pen_tensor_dispose(tensor); }
};
using model_pointer = std::unique_ptr<pen_model, closer>;
using tensor_pointer = std::unique_ptr<pen_tensor_handle, closer>;

void check(pen_status status, const pen_error &error)
{
    if (status != PEN_OK) {
        throw std::runtime_error(error.text);
    }
}

constexpr std::array<float, 64> seven = {0, 0, .2f, 1, .9f, .3f, 0, 0, 0, 0, .4f, 1, .9f, .9f, 0, 0,
                                         0, 0, 0, .1f, .4f, 1, .3f, 0, 0, .1f, .4f, .6f, .9f, 1, .3f, 0,
                                         0, .6f, 1, 1, 1, .7f, .1f, 0, 0, 0, .6f, .9f, 1, .3f, 0, 0,
                                         0, 0, .4f, 1, .7f, 0, 0, 0, 0, 0, .1f, .9f, .3f, 0, 0, 0};

using scores = std::vector<float>;

// Runs on the library's own thread when the data are there.
void arrived(void *context, pen_status status, const pen_tensor *view, const pen_error *error)
{
    auto &promise = *static_cast<std::promise<scores> *>(context);
    if (status != PEN_OK) {
        promise.set_exception(std::make_exception_ptr(std::runtime_error(error->text)));
        return;
    }
    const auto *data = static_cast<const float *>(view->data);
    promise.set_value(scores(data, data + view->bytes / sizeof(float)));
}

scores classify(const char *path)
{
    pen_error error{};
    pen_model *model = nullptr;
    check(pen_model_open(path, &model, &error), error);
    const model_pointer owner(model);

    pen_tensor picture{};
    picture.dtype = PEN_DTYPE_F32;
    picture.rank = 4;
    picture.dims[0] = picture.dims[1] = 1;
    picture.dims[2] = picture.dims[3] = 8;
    picture.data = seven.data();
    picture.bytes = sizeof seven;
    pen_tensor_handle *image = nullptr, *answer = nullptr;
    check(pen_tensor_wrap(&picture, nullptr, nullptr, &image, &error), error);
    const tensor_pointer image_owner(image);

    pen_run_options background{};
    background.background = true;
    check(pen_model_run(model, &image, 1, &background, &answer, 1, &error), error);
    const tensor_pointer answer_owner(answer);
    std::promise<scores> promise;
    check(pen_tensor_data_async(answer, arrived, &promise, &error), error);
    return promise.get_future().get(); // meanwhile the program might do something else
}

} // namespace

int main(int argc, char **argv)
try {
    if (argc < 2) {
        std::cerr << "usage: digit_cpp MODEL\n";
        return 2;
    }
    const scores found = classify(argv[1]);
    const auto best = std::max_element(found.begin(), found.end());
    std::cout << best - found.begin() << " (" << *best << ") on " << pen_backend_get() << '\n';
    struct pen_memory memory{};
    ::pen_memory(&memory);
    std::cout << memory.tensors << " tensors are left\n";
    pen_shutdown(nullptr);
} catch (const std::exception &e) {
    std::cerr << e.what() << '\n';
    return 1;
}
