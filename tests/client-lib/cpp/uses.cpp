// uses.cpp - penstock.hpp before real pools: uses POOL SLOW PICTURE. Built by cpp_test.py as C++17 and C++20; without exceptions only the second half.
#include <penstock/penstock.hpp>

#include <array>
#include <atomic>
#include <cstdio>

namespace
{
using namespace std::chrono_literals;
using penstock::client;
using penstock::request;
using penstock::tensor;

unsigned passed, failed;

void check(bool good, const char *what)
{
    good ? ++passed : ++failed;
    if (!good) {
        std::printf("FAILED: %s\n", what);
    }
}

penstock::options options_of(const char *endpoint)
{
    penstock::options how;
    how.endpoint = endpoint;
    how.name = "cpp";
    how.connect_timeout = 20s;
    how.more = [](pen_client_options &o) { o.jobs_max = 100; };
    return how;
}

request adder(float a, float b, std::uint64_t sequence, bool start, bool end, std::array<float, 2> &memory)
{
    memory = {a, b};
    return request("adder").input(*tensor::try_view("x", {1, 2}, memory)).output("y").sequence(sequence, start, end);
}

/* ---- with outcomes ---- */

void tensors()
{
    std::array<std::int32_t, 3> three{1, 2, 3};
    auto wrong = tensor::try_view("a", {1, 2}, three);
    check(!wrong && wrong.error().status == PEN_ERR_SHAPE && !wrong.error().text.empty(), "elements that are too many are refused");
    auto right = tensor::try_view("a", {3}, three);
    check(right && right->native()->data == three.data() && right->native()->dtype == PEN_DTYPE_I32, "a view copies nothing");
    const std::vector<std::string> words{"one", ""};
    check(!tensor::try_texts("t", {3}, words), "three texts are not two");
    tensor moved = std::move(*right);
    tensor copied = moved;
    check(std::string(copied.native()->name) == "a" && copied.native()->bytes == 12, "moved and copied");
}

void runs(const client &pool)
{
    std::vector<std::int32_t> a{5, 7};
    const std::int32_t b[] = {1, 2};
    request r("sums");
    r.input(*tensor::try_view("a", {1, 2}, a)).input(*tensor::try_view("b", {1, 2}, b)).parameter("speed", 3).parameter("fast", true);
    r.parameter("name", "value").parameter("share", 0.5).priority(1).backend("reference").require("backend.reference").deadline(30s).flags(PEN_JOB_EXPLAIN | PEN_JOB_NO_CACHE);
    auto answer = pool.try_run(r);
    check(answer && answer->size() == 2, answer ? "two outputs" : answer.error().text.c_str());
    auto sum = answer->find("sum");
    check(sum && sum->shape().size() == 2 && sum->shape()[1] == 2 && *sum->try_copy<std::int32_t>() == std::vector<std::int32_t>{6, 9}, "sums");
    check(sum->bytes().size() == 8 && sum->view<float>().empty() && !sum->try_copy<float>(), "another type gives nothing");
    check(std::string(answer->info().backend) == "reference" && answer->info().round_trip_us > 0, "where it ran");
    check(answer->explanation() && std::string(answer->explanation()->model) == "sums", "and why");
    auto one = pool.try_run(r.output("difference"));
    check(one && one->size() == 1 && (*one)[0].name() == "difference" && !one->find("sum"), "the output that was asked for");
    auto none = pool.try_run(request("nobody").deadline(20s));
    check(!none && none.error().status == PEN_ERR_NOT_FOUND && !none.error().retryable(), "a model that is not there");
}

/* What numbers must keep, and what they rest on; and a log of the operators. */
void contracts(const client &pool)
{
    const std::array<float, 4> x{1, 9, 5, 7};
    request r("share");
    r.input(*tensor::try_view("x", {1, 4}, x)).flags(PEN_JOB_NO_CACHE);
    auto exact = pool.try_run(request(r).precision("f32-exact"));
    check(exact && exact->info().precision == PEN_PRECISION_F32 && *exact->info().build, exact ? "exact in f32" : exact.error().text.c_str());
    auto bounded = pool.try_run(request(r).precision("max_relative_error=1e-3"));
    check(bounded && bounded->info().measured && bounded->info().error_largest <= 1e-3, bounded ? "within a bound" : bounded.error().text.c_str());
    auto same = pool.try_run(request(r).max_relative_error(1e-3));
    check(same && same->info().measured && same->debug_log().empty(), same ? "the same bound as a number" : same.error().text.c_str());
    auto negative = pool.try_run(request(r).max_relative_error(-1));
    check(!negative && negative.error().status == PEN_ERR_INVALID, "a bound below 0 is none");
    auto debugged = pool.try_run(request(r).flags(PEN_JOB_DEBUG));
    check(debugged && debugged->debug_log().find("Softmax") != std::string_view::npos, debugged ? "a log of the operators" : debugged.error().text.c_str());
}

void types(const client &pool)
{
    const std::vector<std::string> words{"wörld", "", "two"};
    auto texts = pool.try_run(request("same_bytes").input(*tensor::try_texts("x", {1, 3}, words)));
    check(texts && (*texts)[0].texts() == std::vector<std::string_view>(words.begin(), words.end()), "texts come back");
    const penstock::half halves[] = {{0x3c00}, {0xc000}};
    auto same = pool.try_run(request("same_fp16").input(*tensor::try_view("x", {1, 2}, halves)));
    check(same && static_cast<float>((*(*same)[0].try_copy<penstock::half>())[1]) == -2.0f, "half precision");
    const bool flags[] = {true, false};
    auto bits = pool.try_run(request("same_bool").input(*tensor::try_view("x", {1, 2}, flags)));
    check(bits && *(*bits)[0].try_copy<unsigned char>() == std::vector<unsigned char>{1, 0}, "booleans");
    const std::uint64_t wide[] = {~std::uint64_t{0}};
    auto large = pool.try_run(request("same_uint64").input(*tensor::try_view("x", {1, 1}, wide)));
    check(large && (*(*large)[0].try_copy<std::uint64_t>())[0] == wide[0], "64 bits without a sign");
}

void picture(const client &pool, const char *file)
{
    auto image = pool.try_picture("digits", file);
    check(image.has_value(), image ? "a picture" : image.error().text.c_str());
    auto answer = pool.try_run(request("digits").input(*image).top_k(2));
    auto best = answer ? answer->top(3) : std::vector<pen_class>();
    check(best.size() == 2 && std::string(best[0].name) == "nine" && best[0].score >= best[1].score, "the best classes");
    check(!pool.try_picture("digits", "/nowhere.png") && !pool.try_picture("sums", file), "no file; no model for pictures");
}

void jobs(const client &pool)
{
    std::vector<request> many;
    std::vector<std::array<float, 4>> data(8);
    for (std::size_t i = 0; i < data.size(); i++) {
        data[i].fill(static_cast<float>(i));
        many.push_back(request("batched").input(*tensor::try_view("x", {1, 4}, data[i])).flags(PEN_JOB_ORDERED));
    }
    auto accepted = pool.try_submit_many(many);
    check(accepted && accepted->size() == 8 && !(*accepted)[0].id().empty(), "eight at once");
    for (std::size_t i = 0; accepted && i < data.size(); i++) {
        auto ended = (*accepted)[i].try_wait(20s);
        check(ended && *ended && (*(*ended)[0].try_copy<float>())[3] == static_cast<float>(i), "each its own answer");
        check((*accepted)[i].try_wait(0s).error().status == PEN_ERR_INVALID, "only once");
    }
    auto owner = std::make_shared<std::vector<float>>(4u, 2.5f);
    std::weak_ptr<std::vector<float>> watched = owner;
    request r("batched");
    r.input(*tensor::try_view("x", {1, 4}, *owner)).borrow(owner);
    auto one = pool.try_submit(r);
    owner.reset();
    r.borrow(nullptr);
    check(one->try_wait(20s) && one->ended(), "a job with borrowed inputs");
    for (int i = 0; i < 2000 && !watched.expired(); i++) {
        std::this_thread::sleep_for(5ms);
    }
    check(watched.expired(), "the owner is let go");
}

void callbacks(const client &pool)
{
    std::array<float, 4> x{1, 2, 3, 4};
    request r("batched");
    r.input(*tensor::try_view("x", {1, 4}, x));
    int called = 0;
    check(pool.fd() >= 0, "a descriptor to poll");
    auto shared = std::make_shared<int>(0);
    for (int i = 0; i < 3; i++) {
        check(bool(pool.try_submit(r, [&called, shared](penstock::result answer) { called += answer.status() == PEN_OK; })), "submitted");
    }
    for (int i = 0; i < 100 && called < 3; i++) {
        pool.dispatch(200ms);
    }
    check(called == 3 && shared.use_count() == 1, "three callbacks, and all is freed");
    auto refused = pool.try_submit(request(""), [shared](penstock::result) {});
    check(!refused && shared.use_count() == 1, "of a job that is refused nothing is kept");
}

void sequences(const client &pool)
{
    std::array<float, 2> memory;
    const float want[3][2] = {{1, 0}, {2, 1}, {3, 3}};
    for (int step = 0; step < 3; step++) {
        auto answer = pool.try_run(adder(1, static_cast<float>(step), 77, step == 0, step == 2, memory));
        auto y = answer ? *(*answer)[0].try_copy<float>() : std::vector<float>(2);
        check(y[0] == want[step][0] && y[1] == want[step][1], answer ? "a sequence adds up" : answer.error().text.c_str());
    }
}

void detached(const client &pool)
{
    std::array<float, 4> x{9, 8, 7, 6};
    auto job = pool.try_submit(request("batched").input(*tensor::try_view("x", {1, 4}, x)).detach(60s, "my secret"));
    auto taken = job->try_wait(20s);
    check(taken && *taken, taken ? taken->error_text() : "no answer");
    auto fetched = pool.try_run(request::fetch(job->id()));
    check(fetched && (*(*fetched)[0].try_copy<float>())[0] == 9.0f, fetched ? "fetched" : fetched.error().text.c_str());
    auto state = pool.try_run(request::state(job->id()));
    check(state && std::string(state->info().detached_state) == "done", "what became of it");
    check(pool.try_cancel_own(job->id(), "other").error().status != PEN_OK, "its secret is asked for");
}

void admin(const client &pool)
{
    auto models = pool.try_models();
    const pen_model *sums = models ? penstock::find(*models, "sums") : nullptr;
    check(sums && sums->inputs_count == 2 && !penstock::find(*models, "nobody"), "models");
    auto workers = pool.try_workers();
    check(workers && (**workers).count == 1, "workers");
    check(pool.try_stats() && pool.counters().jobs_ended > 0, "counters");
    auto gone = pool.try_unload("same_int8");
    check(gone && (**gone).count == 1 && (**gone).outcomes[0].status == PEN_OK, "unloading");
    check(bool(pool.try_load("same_int8")), "loading");
    std::array<float, 4> x{4, 3, 2, 1};
    auto job = pool.try_submit(request("batched").input(*tensor::try_view("x", {1, 4}, x)).flags(PEN_JOB_NO_CACHE));
    check(job && job->try_wait(20s), "a job");
    auto told = pool.try_explain(job->id());
    check(told && std::string((*told)->model) == "batched", told ? "explained" : told.error().text.c_str());
    check(pool.try_cancel(job->id()).error().status == PEN_ERR_NOT_FOUND && !pool.try_explain("no id"), "jobs that are not there");
    check(bool(pool.try_trace("all")) || !pool.try_trace("all").error().text.empty(), "traces");
}

void slow(const char *endpoint)
{
    auto pool = client::try_connect(options_of(endpoint));
    const std::uint8_t bytes[4] = {1, 2, 3, 4};
    request r("null");
    r.input(*tensor::try_view("bytes", {1, 4}, bytes));
    auto late = pool->try_run(request(r).deadline(100ms));
    check(!late && late.error().status == PEN_ERR_DEADLINE, late ? "no deadline" : late.error().text.c_str());
    auto job = pool->try_submit(r);
    check(!job->ended() && job->try_wait(10ms).error().status == PEN_ERR_TIMEOUT, "a wait that runs out");
    job->cancel();
    check(job->try_wait(20s)->status() == PEN_ERR_CANCELLED, "a job is cancelled");
    auto shared = std::make_shared<int>(0);
    check(bool(pool->try_submit(r, [shared](penstock::result) {})), "submitted");
    auto broken = pool->try_async(r);
    auto moved = std::move(*pool); /* and its end: the callback is dropped, the promise broken */
    {
        client last = std::move(moved);
    }
    check(shared.use_count() == 1, "a client that ends frees its callbacks");
    check(broken->wait_for(0s) == std::future_status::ready, "and breaks its promises");
#if PENSTOCK_THROWS
    bool seen = false;
    try {
        broken->get();
    } catch (const std::future_error &) {
        seen = true;
    }
    check(seen, "which the future tells");
#endif
}

void futures(const client &pool)
{
    std::array<float, 4> x{1, 2, 3, 4};
    request r("batched");
    r.input(*tensor::try_view("x", {1, 4}, x));
    std::vector<std::future<penstock::result>> all;
    for (int i = 0; i < 16; i++) {
        auto one = pool.try_async(r);
        check(bool(one), "submitted");
        all.push_back(std::move(*one));
    }
    for (auto &one : all) {
        check(one.wait_for(20s) == std::future_status::ready && one.get().status() == PEN_OK, "a future");
    }
    auto refused = pool.try_async(request("nobody"));
    check(refused->get().status() == PEN_ERR_NOT_FOUND, "a future of a job that fails has its status");
}

/* ---- with exceptions ---- */

#if PENSTOCK_THROWS
template <class F> pen_status thrown(F &&call)
{
    try {
        call();
    } catch (const penstock::error &e) {
        return *e.what() ? e.status() : PEN_OK;
    }
    return PEN_OK;
}

void exceptions(const char *endpoint)
{
    client pool = client::connect(endpoint);
    std::vector<float> x{1, 2, 3, 4};
    auto answer = pool.run(request("batched").input(tensor::view("x", {1, 4}, x)));
    check(answer[0].copy<float>() == x && answer.check().size() == 1, "a run");
    check(pool.submit(request("batched").input(tensor::view("x", {1, 4}, x))).get().size() == 1, "a job");
    check(pool.async(request("batched").input(tensor::view("x", {1, 4}, x))).get().check().size() == 1, "a future");
    check(pool.models()->count > 0, "models");
    check(thrown([&] { pool.run(request("nobody")); }) == PEN_ERR_NOT_FOUND, "run throws");
    check(thrown([&] { pool.submit(request("nobody")).get(); }) == PEN_ERR_NOT_FOUND, "get throws");
    check(thrown([&] { answer[0].copy<int>(); }) == PEN_ERR_DTYPE, "copy throws");
    check(thrown([&] { tensor::view("x", {9}, x); }) == PEN_ERR_SHAPE, "view throws");
    check(thrown([] { request("batched").precision("f33"); }) == PEN_ERR_INVALID, "a precision that there is not throws");
    check(thrown([] { client::connect("nonsense"); }) == PEN_ERR_INVALID, "connect throws");
}
#endif
} // namespace

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 2;
    }
    auto pool = client::try_connect(options_of(argv[1]));
    check(pool && pool->try_wait_ready(1s), pool ? "ready" : pool.error().text.c_str());
    if (!pool) {
        return 1;
    }
    tensors(), runs(*pool), contracts(*pool), types(*pool), picture(*pool, argv[3]), jobs(*pool), callbacks(*pool), sequences(*pool), detached(*pool);
    admin(*pool), slow(argv[2]), futures(*pool);
#if PENSTOCK_THROWS
    exceptions(argv[1]);
#endif
    std::printf("%u passed, %u failed\n", passed, failed);
    return failed > 0;
}
