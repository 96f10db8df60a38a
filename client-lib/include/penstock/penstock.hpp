/**
 * @file penstock/penstock.hpp
 * Penstock for C++17 and later, in one header over penstock/client.h. Handles free themselves and can be moved, not copied.
 *
 * Each call comes twice: `run()` throws penstock::error, `try_run()` returns an ::penstock::outcome, a value or a failure as std::expected
 * has it. Without exceptions (-fno-exceptions) only the second form is there. Where this header says nothing, penstock/client.h does.
 *
 * Threads: a client may be used by any number of them; a request, a tensor, a job and a result by one at a time.
 */
#ifndef PENSTOCK_PENSTOCK_HPP
#define PENSTOCK_PENSTOCK_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/values.hpp"

namespace penstock
{

using std::chrono::microseconds;

/** For all `timeout` parameters: wait without an end. */
inline constexpr microseconds forever{-1};

/* ---- requests ---- */

/** A job that is about to be submitted: a model, inputs, and what else is not as usual. */
class request
{
  public:
    explicit request(std::string model) : model_(std::move(model)) { pen_job_options_init(&options_, sizeof options_); }
    /** Wants the result of a detached job: wait() lasts until it is there. */
    static request fetch(std::string id)
    {
        request r{std::string()};
        r.detached_ = std::move(id);
        return r;
    }
    /** Wants to know what becomes of a detached job: result::info().detached_state. */
    static request state(std::string id)
    {
        request r = fetch(std::move(id));
        r.options_.detached_state = true;
        return r;
    }
    request &input(tensor t)
    {
        inputs_.push_back(std::move(t));
        return *this;
    }
    /** Only these outputs are wanted; none named: all. */
    request &output(std::string name)
    {
        outputs_.push_back(std::move(name));
        return *this;
    }
    request &tag(std::string name)
    {
        tags_.push_back(std::move(name));
        return *this;
    }
    /** "NAME" or "NAME=VALUE": a flag that the worker must have. */
    request &require(std::string flag)
    {
        needs_.push_back(std::move(flag));
        return *this;
    }
    template <class T> request &parameter(std::string name, const T &given)
    {
        if constexpr (std::is_same_v<T, bool>) {
            parameters_.emplace_back(std::move(name), given);
        } else if constexpr (std::is_integral_v<T>) {
            parameters_.emplace_back(std::move(name), static_cast<std::int64_t>(given));
        } else if constexpr (std::is_floating_point_v<T>) {
            parameters_.emplace_back(std::move(name), static_cast<double>(given));
        } else {
            parameters_.emplace_back(std::move(name), std::string(given));
        }
        return *this;
    }
    request &version(std::uint64_t number)
    {
        options_.version = number;
        return *this;
    }
    request &version_label(std::string name)
    {
        version_label_ = std::move(name);
        return *this;
    }
    request &deadline(microseconds from_now)
    {
        options_.deadline_us = from_now.count() > 0 ? static_cast<std::uint64_t>(from_now.count()) : 1;
        return *this;
    }
    request &priority(std::uint8_t level)
    {
        options_.priority = level;
        return *this;
    }
    /** "f32-exact", "max_relative_error=1e-2", or a class. Throws on another text. */
    request &precision(const std::string &contract)
    {
        pen_error why{};
        if (pen_job_options_precision(&options_, contract.c_str(), &why) != PEN_OK) {
            raise(failure{why.status, why.text});
        }
        return *this;
    }
    request &max_relative_error(double bound)
    {
        options_.max_relative_error = bound;
        return *this;
    }
    request &precision(pen_precision demanded)
    {
        options_.precision = demanded;
        return *this;
    }
    request &backend(std::string name)
    {
        backend_ = std::move(name);
        return *this;
    }
    request &top_k(std::uint32_t classes)
    {
        options_.top_k = classes;
        return *this;
    }
    request &traceparent(std::string text)
    {
        traceparent_ = std::move(text);
        return *this;
    }
    /** Bits of enum pen_job_flag; PEN_JOB_BORROW is borrow()'s. */
    request &flags(unsigned more)
    {
        options_.flags |= more & ~static_cast<unsigned>(PEN_JOB_BORROW);
        return *this;
    }
    request &sequence(std::uint64_t id, bool start = false, bool end = false)
    {
        options_.sequence_id = id;
        return flags((start ? unsigned{PEN_JOB_SEQUENCE_START} : 0u) | (end ? unsigned{PEN_JOB_SEQUENCE_END} : 0u));
    }
    request &detach(microseconds kept = microseconds{0}, std::string secret = {})
    {
        options_.detached_ttl_us = static_cast<std::uint64_t>(kept.count());
        secret_ = std::move(secret);
        return flags(PEN_JOB_DETACHED);
    }
    /** Inputs are not copied by submit(): `owner` keeps them alive until the library has done with them. */
    request &borrow(std::shared_ptr<const void> owner)
    {
        owner_ = std::move(owner);
        return *this;
    }

  private:
    friend class client;
    using value = std::variant<std::string, std::int64_t, double, bool>;

    /** The options with all that they point to; the request must stay where it is. */
    struct packed {
        pen_job_options options;
        std::vector<pen_tensor> inputs;
        std::vector<const char *> outputs, tags, flags;
        std::vector<pen_parameter> parameters;

        explicit packed(const request &r) : options(r.options_)
        {
            for (const tensor &t : r.inputs_) {
                inputs.push_back(*t.native());
            }
            for (const std::string &name : r.outputs_) {
                outputs.push_back(name.c_str());
            }
            for (const std::string &name : r.tags_) {
                tags.push_back(name.c_str());
            }
            for (const std::string &name : r.needs_) {
                flags.push_back(name.c_str());
            }
            for (const auto &[name, given] : r.parameters_) {
                parameters.push_back(pack(name, given));
            }
            options.model = text(r.model_), options.version_label = text(r.version_label_);
            options.backend = text(r.backend_), options.traceparent = text(r.traceparent_);
            options.detached = text(r.detached_), options.detached_secret = text(r.secret_);
            options.inputs = inputs.data(), options.inputs_count = inputs.size();
            options.outputs = outputs.empty() ? nullptr : outputs.data(), options.outputs_count = outputs.size();
            options.tags = tags.data(), options.tags_count = tags.size();
            options.needs = flags.data(), options.needs_count = flags.size();
            options.parameters = parameters.data(), options.parameters_count = parameters.size();
        }
        static const char *text(const std::string &from) noexcept { return from.empty() ? nullptr : from.c_str(); }
        static pen_parameter pack(const std::string &name, const value &given)
        {
            pen_parameter p{};
            p.name = name.c_str();
            p.kind = static_cast<pen_parameter_kind>(given.index());
            switch (given.index()) {
            case 0:
                p.value.text = std::get_if<0>(&given)->c_str();
                break;
            case 1:
                p.value.integer = *std::get_if<1>(&given);
                break;
            case 2:
                p.value.number = *std::get_if<2>(&given);
                break;
            default:
                p.value.flag = *std::get_if<3>(&given);
            }
            return p;
        }
    };

    pen_job_options options_{};
    std::string model_, version_label_, backend_, traceparent_, detached_, secret_;
    std::vector<tensor> inputs_;
    std::vector<std::string> outputs_, tags_, needs_;
    std::vector<std::pair<std::string, value>> parameters_;
    std::shared_ptr<const void> owner_;
};

/* ---- jobs ---- */

/** A job that was submitted. Its end cancels the job when that is still under way. */
class job
{
  public:
    explicit job(pen_job *native) noexcept : native_(native) {}
    /** Waits for the end, well or not: see result::status(). TIMEOUT: it is still under way. Once ended, a second wait is INVALID. */
    outcome<result> try_wait(microseconds timeout = forever)
    {
        pen_result *ended = nullptr;
        pen_error why{};
        auto status = pen_job_wait(native_.get(), timeout.count(), &ended, &why);
        return status == PEN_OK ? outcome<result>(result(ended)) : failure{status, why.text};
    }
    /** Waits, and throws what the job ended with when that is not PEN_OK. */
    result get(microseconds timeout = forever)
    {
        result ended = try_wait(timeout).value();
        ended.check();
        return ended;
    }
    bool ended() const noexcept { return pen_job_poll(native_.get()); }
    void cancel() const noexcept { pen_job_cancel(native_.get()); }
    std::string id() const
    {
        char text[PEN_JOB_ID_BYTES];
        return pen_job_id(native_.get(), text);
    }
    pen_job *native() const noexcept { return native_.get(); }

  private:
    struct freed {
        void operator()(pen_job *j) const noexcept { pen_job_free(j); }
    };
    std::unique_ptr<pen_job, freed> native_;
};

/* ---- lists ---- */

/** A list of the broker's, freed with this: models, workers, outcomes, counters, an explanation. `*list` and `list->` are the struct of admin.h. */
template <class T, void (*Free)(T *)> class listing
{
  public:
    explicit listing(T *native) noexcept : native_(native) {}
    const T &operator*() const noexcept { return *native_; }
    const T *operator->() const noexcept { return native_.get(); }

  private:
    struct freed {
        void operator()(T *list) const noexcept { Free(list); }
    };
    std::unique_ptr<T, freed> native_;
};

using model_list = listing<pen_model_list, pen_client_models_free>;
using worker_list = listing<pen_worker_list, pen_client_workers_free>;
using outcome_list = listing<pen_outcome_list, pen_outcomes_free>;
using stats = listing<pen_stats, pen_client_stats_free>;
using explanation = listing<pen_explanation, pen_explanation_free>;

/** The row of a model in its highest version, or NULL. Lives as long as the list. */
inline const pen_model *find(const model_list &list, std::string_view name) noexcept
{
    const pen_model *best = nullptr;
    for (std::size_t i = 0; i < list->count; i++) {
        const pen_model *m = list->models[i];
        best = name == m->name && (!best || m->version > best->version) ? m : best;
    }
    return best;
}

/* ---- the client ---- */

/** How to reach the pool; what is left out is as pen_client_options_init() has it. */
struct options {
    std::string endpoint, name, tenant, key_file, broker_key; /**< "" = the default */
    microseconds connect_timeout{0};                          /**< wait so long for the broker's welcome */
    /** For all that is not above; called last. */
    std::function<void(pen_client_options &)> more;
};

/** A session with the pool. */
class client
{
  public:
    using callback = std::function<void(result)>;

    static outcome<client> try_connect(const options &how = {})
    {
        pen_client_options o;
        pen_client_options_init(&o, sizeof o);
        set(o.endpoint, how.endpoint), set(o.name, how.name), set(o.tenant, how.tenant);
        set(o.key_file, how.key_file), set(o.broker_key, how.broker_key);
        o.connect_timeout_us = how.connect_timeout.count();
        if (how.more) {
            how.more(o);
        }
        pen_client *native = nullptr;
        pen_error why{};
        auto status = pen_client_connect(&o, &native, &why);
        return status == PEN_OK ? outcome<client>(client(native)) : failure{status, why.text};
    }
    static client connect(const options &how = {}) { return try_connect(how).value(); }
    static client connect(std::string endpoint)
    {
        options how;
        how.endpoint = std::move(endpoint);
        return connect(how);
    }
    outcome<done> try_wait_ready(microseconds timeout) const
    {
        return ask([&](pen_error *why) { return pen_client_wait_ready(native(), timeout.count(), why); });
    }

    /** Submits, waits, and gives an answer that is PEN_OK. Inputs are not copied. */
    outcome<result> try_run(const request &r) const
    {
        request::packed packed(r);
        pen_result *answer = nullptr;
        pen_error why{};
        auto status = pen_client_run(native(), &packed.options, &answer, &why);
        return status == PEN_OK ? outcome<result>(result(answer)) : failure{status, why.text};
    }
    result run(const request &r) const { return try_run(r).value(); }

    /** Submits and returns at once. */
    outcome<job> try_submit(const request &r) const
    {
        pen_job *accepted = nullptr;
        pen_error why{};
        auto status = enqueue(r, nullptr, &accepted, &why);
        return status == PEN_OK ? outcome<job>(job(accepted)) : failure{status, why.text};
    }
    job submit(const request &r) const { return try_submit(r).value(); }
    /** All of them or none; borrow() is passed over. */
    outcome<std::vector<job>> try_submit_many(span<const request> requests) const
    {
        std::vector<request::packed> packed;
        packed.reserve(requests.size());
        std::vector<pen_job_options> all;
        for (const request &r : requests) {
            all.push_back(packed.emplace_back(r).options);
        }
        std::vector<pen_job *> accepted(requests.size());
        std::vector<job> jobs;
        jobs.reserve(requests.size());
        pen_error why{};
        auto status = pen_client_submit_many(native(), all.data(), all.size(), accepted.data(), &why);
        if (status != PEN_OK) {
            return failure{status, why.text};
        }
        for (pen_job *one : accepted) {
            jobs.emplace_back(one);
        }
        return jobs;
    }
    /** `then` is called by dispatch(), or by the thread of futures once there is one; it must not throw. Not called any more when the client ends first. */
    outcome<done> try_submit(const request &r, callback then) const
    {
        auto kept = std::make_unique<waiting>(waiting{std::move(then), state_.get()});
        pen_error why{};
        {
            std::lock_guard<std::mutex> guard(state_->lock);
            state_->callbacks.insert(kept.get());
        }
        auto status = enqueue(r, kept.get(), nullptr, &why);
        if (status == PEN_OK) {
            (void)kept.release();
            return done{};
        }
        std::lock_guard<std::mutex> guard(state_->lock);
        state_->callbacks.erase(kept.get());
        return failure{status, why.text};
    }
    void submit(const request &r, callback then) const { (void)try_submit(r, std::move(then)).value(); }
    /** A std::future of the answer, whatever its status. A thread of the client's brings it, begun by the first call. A client that ends first breaks the promise. */
    outcome<std::future<result>> try_async(const request &r) const
    {
        auto promise = std::make_shared<std::promise<result>>();
        auto future = promise->get_future();
        if (!state_->start_thread()) {
            return failure{PEN_ERR_NO_MEMORY, "too few files may be opened for the thread of futures."};
        }
        auto accepted = try_submit(r, [promise](result answer) { promise->set_value(std::move(answer)); });
        return accepted ? outcome<std::future<result>>(std::move(future)) : accepted.error();
    }
    std::future<result> async(const request &r) const { return try_async(r).value(); }
    /** Readable while callbacks wait; -1 without resources. */
    int fd() const noexcept { return pen_client_fd(native()); }
    /** Calls the callbacks of ended jobs on this thread; how many. */
    int dispatch(microseconds timeout = microseconds{0}) const { return pen_client_dispatch(native(), timeout.count()); }

    /** A picture in a file as the model takes it. */
    outcome<tensor> try_picture(const std::string &model, const std::string &path) const
    {
        pen_tensor picture{};
        pen_error why{};
        auto status = pen_client_picture(native(), model.c_str(), path.c_str(), &picture, &why);
        return status == PEN_OK ? outcome<tensor>(tensor::adopt(std::move(picture))) : failure{status, why.text};
    }
    tensor picture(const std::string &model, const std::string &path) const { return try_picture(model, path).value(); }

    outcome<model_list> try_models(microseconds timeout = seconds_10) const { return listed<model_list>(pen_client_models, timeout); }
    model_list models(microseconds timeout = seconds_10) const { return try_models(timeout).value(); }
    outcome<worker_list> try_workers(microseconds timeout = seconds_10) const { return listed<worker_list>(pen_client_workers, timeout); }
    outcome<stats> try_stats(microseconds timeout = seconds_10) const { return listed<stats>(pen_client_stats, timeout); }
    outcome<outcome_list> try_load(const std::string &model, microseconds timeout = seconds_10) const
    {
        return named<outcome_list>(pen_client_model_load, model, timeout);
    }
    outcome<outcome_list> try_unload(const std::string &model, microseconds timeout = seconds_10) const
    {
        return named<outcome_list>(pen_client_model_unload, model, timeout);
    }
    outcome<explanation> try_explain(const std::string &job_id, microseconds timeout = seconds_10) const
    {
        return named<explanation>(pen_client_explain, job_id, timeout);
    }
    /** A job of any session by the text of its id. */
    outcome<done> try_cancel(const std::string &job_id, microseconds timeout = seconds_10) const
    {
        return ask([&](pen_error *why) { return pen_client_cancel(native(), job_id.c_str(), timeout.count(), why); });
    }
    /** A detached job of one's own by the secret that it was submitted with. */
    outcome<done> try_cancel_own(const std::string &job_id, const std::string &secret, microseconds timeout = seconds_10) const
    {
        return ask([&](pen_error *why) { return pen_client_cancel_own(native(), job_id.c_str(), secret.c_str(), timeout.count(), why); });
    }
    /** The lives of jobs as JSON (pen_client_trace()). */
    outcome<std::string> try_trace(const std::string &what, microseconds timeout = seconds_10) const
    {
        char *text = nullptr;
        pen_error why{};
        auto status = pen_client_trace(native(), what.c_str(), timeout.count(), &text, &why);
        std::unique_ptr<char, void (*)(char *)> kept(text, pen_text_free);
        return status == PEN_OK ? outcome<std::string>(std::string(text)) : failure{status, why.text};
    }
    struct pen_client_counters counters() const noexcept
    {
        struct pen_client_counters now{};
        ::pen_client_counters(native(), &now, sizeof now);
        return now;
    }
    /** For all that is not here. */
    pen_client *native() const noexcept { return state_->native; }

  private:
    static constexpr microseconds seconds_10{10000000};
    struct state;
    struct waiting {
        callback then;
        state *of;
    };

    struct state {
        pen_client *native;
        std::mutex lock;
        std::unordered_set<waiting *> callbacks; /* submitted, not called yet */
        std::thread futures;
        int wake[2] = {-1, -1}; /* a byte in it ends the thread */

        explicit state(pen_client *c) noexcept : native(c) {}
        state(const state &) = delete;
        state &operator=(const state &) = delete;
        ~state()
        {
            if (futures.joinable()) {
                (void)!::write(wake[1], "", 1);
                futures.join();
            }
            for (int end : wake) {
                if (end >= 0) {
                    ::close(end);
                }
            }
            pen_client_free(native);
            for (waiting *left : callbacks) {
                delete left;
            }
        }
        bool start_thread()
        {
            std::lock_guard<std::mutex> guard(lock);
            int fd = futures.joinable() ? -1 : pen_client_fd(native);
            if (!futures.joinable() && fd >= 0 && (wake[0] >= 0 || ::pipe(wake) == 0)) {
                futures = std::thread([this, fd] { serve(fd); });
            }
            return futures.joinable();
        }
        void serve(int fd) noexcept
        {
            pollfd ready[2] = {{fd, POLLIN, 0}, {wake[0], POLLIN, 0}};
            while ((::poll(ready, 2, -1) >= 0 || errno == EINTR) && !(ready[1].revents & POLLIN)) {
                pen_client_dispatch(native, 0);
            }
        }
    };

    explicit client(pen_client *native) : state_(std::make_unique<state>(native)) {}
    static void set(const char *&field, const std::string &text) noexcept { field = text.empty() ? field : text.c_str(); }
    static void called(pen_job *, pen_result *answer, void *arg) noexcept
    {
        std::unique_ptr<waiting> one(static_cast<waiting *>(arg));
        {
            std::lock_guard<std::mutex> guard(one->of->lock);
            one->of->callbacks.erase(one.get());
        }
        one->then(result(answer));
    }
    static void released(void *owner) noexcept { delete static_cast<std::shared_ptr<const void> *>(owner); }
    pen_status enqueue(const request &r, waiting *then, pen_job **accepted, pen_error *why) const
    {
        request::packed packed(r);
        std::unique_ptr<std::shared_ptr<const void>> owner;
        if (r.owner_) {
            owner = std::make_unique<std::shared_ptr<const void>>(r.owner_);
            packed.options.flags |= PEN_JOB_BORROW;
            packed.options.release = released;
            packed.options.release_arg = owner.get();
        }
        if (then) {
            packed.options.callback = called;
            packed.options.callback_arg = then;
        }
        auto status = pen_client_submit(native(), &packed.options, accepted, why);
        if (status == PEN_OK) {
            (void)owner.release(); /* released() has it now */
        }
        return status;
    }
    template <class F> static outcome<done> ask(F &&question)
    {
        pen_error why{};
        pen_status status = question(&why);
        return status == PEN_OK ? outcome<done>(done{}) : failure{status, why.text};
    }
    template <class L, class T>
    outcome<L> listed(pen_status (*question)(pen_client *, std::int64_t, T **, pen_error *), microseconds timeout) const
    {
        T *list = nullptr;
        pen_error why{};
        auto status = question(native(), timeout.count(), &list, &why);
        return status == PEN_OK ? outcome<L>(L(list)) : failure{status, why.text};
    }
    template <class L, class T>
    outcome<L> named(pen_status (*question)(pen_client *, const char *, std::int64_t, T **, pen_error *), const std::string &what,
                     microseconds timeout) const
    {
        T *list = nullptr;
        pen_error why{};
        auto status = question(native(), what.c_str(), timeout.count(), &list, &why);
        return status == PEN_OK ? outcome<L>(L(list)) : failure{status, why.text};
    }

    std::unique_ptr<state> state_;
};

} // namespace penstock

#endif
