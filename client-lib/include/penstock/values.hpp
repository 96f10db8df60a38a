/**
 * @file penstock/values.hpp
 * What penstock/penstock.hpp works with, and includes: spans, failures and outcomes, element types, inputs, results. Not included on its own.
 */
#ifndef PENSTOCK_VALUES_HPP
#define PENSTOCK_VALUES_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C has a struct and a function of one name */
#endif
#include "penstock/client.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#if defined(__cpp_exceptions)
#define PENSTOCK_THROWS 1
#else
#define PENSTOCK_THROWS 0
#endif

namespace penstock
{

#if defined(__cpp_lib_span)
template <class T> using span = std::span<T>;
#else
/** What C++17 lacks: a view of elements that lie one behind the other. */
template <class T> class span
{
  public:
    using value_type = std::remove_cv_t<T>;
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size())
    {
    }
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const { return data_[index]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/* ---- failures ---- */

/** Why a call failed: the status, and one sentence. */
struct failure {
    pen_status status = PEN_ERR_INTERNAL;
    std::string text;
    /** The same request may succeed later. */
    bool retryable() const noexcept { return pen_status_retryable(status) != 0; }
};

#if PENSTOCK_THROWS
class error : public std::runtime_error
{
  public:
    explicit error(const failure &why) : std::runtime_error(why.text), status_(why.status) {}
    pen_status status() const noexcept { return status_; }
    bool retryable() const noexcept { return pen_status_retryable(status_) != 0; }

  private:
    pen_status status_;
};
#endif

/** Throws the failure; without exceptions it ends the program. */
[[noreturn]] inline void raise(const failure &why)
{
#if PENSTOCK_THROWS
    throw error(why);
#else
    (void)why;
    std::terminate();
#endif
}

/** A value, or why there is none. */
template <class T> class [[nodiscard]] outcome
{
  public:
    outcome(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    outcome(failure why) : held_(std::in_place_index<1>, std::move(why)) {}
    bool has_value() const noexcept { return held_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    /** Throws when there is none. */
    T &value() & { return has_value() ? *std::get_if<0>(&held_) : (raise(error()), *std::get_if<0>(&held_)); }
    T value() && { return std::move(value()); }
    /** Only with a value. */
    T &operator*() & noexcept { return *std::get_if<0>(&held_); }
    const T &operator*() const & noexcept { return *std::get_if<0>(&held_); }
    T operator*() && noexcept { return std::move(*std::get_if<0>(&held_)); }
    T *operator->() noexcept { return std::get_if<0>(&held_); }
    const T *operator->() const noexcept { return std::get_if<0>(&held_); }
    /** Only without a value. */
    const failure &error() const noexcept { return *std::get_if<1>(&held_); }

  private:
    std::variant<T, failure> held_;
};

/** For calls that give nothing. */
using done = std::monostate;

/* ---- element types ---- */

/** Half-precision and bfloat16 numbers, by their bits. */
struct half {
    std::uint16_t bits;
    explicit operator float() const noexcept { return pen_f16_to_f32(bits); }
};
struct bfloat16 {
    std::uint16_t bits;
    explicit operator float() const noexcept { return pen_bf16_to_f32(bits); }
};

/** The dtype of an element type of C++; what it is not made for does not compile. */
template <class T> constexpr pen_dtype dtype_of() noexcept
{
    using E = std::remove_cv_t<T>;
    constexpr bool integer = std::is_integral_v<E> && !std::is_same_v<E, bool>;
    static_assert(std::is_arithmetic_v<E> || std::is_same_v<E, half> || std::is_same_v<E, bfloat16>, "no element type of a tensor");
    static_assert(!std::is_floating_point_v<E> || sizeof(E) == 4 || sizeof(E) == 8, "no element type of a tensor");
    if constexpr (std::is_same_v<E, half>) {
        return PEN_DTYPE_F16;
    } else if constexpr (std::is_same_v<E, bfloat16>) {
        return PEN_DTYPE_BF16;
    } else if constexpr (std::is_same_v<E, bool>) {
        return PEN_DTYPE_BOOL;
    } else if constexpr (!integer) {
        return sizeof(E) == 4 ? PEN_DTYPE_F32 : PEN_DTYPE_F64;
    } else if constexpr (std::is_signed_v<E>) {
        return sizeof(E) == 1 ? PEN_DTYPE_I8 : sizeof(E) == 2 ? PEN_DTYPE_I16 : sizeof(E) == 4 ? PEN_DTYPE_I32 : PEN_DTYPE_I64;
    } else {
        return sizeof(E) == 1 ? PEN_DTYPE_U8 : sizeof(E) == 2 ? PEN_DTYPE_U16 : sizeof(E) == 4 ? PEN_DTYPE_U32 : PEN_DTYPE_U64;
    }
}

/* ---- inputs ---- */

/** An input. It views the caller's elements, or owns what it was made of; copies share that. */
class tensor
{
  public:
    /** Views `elements`, which must live until the call that takes them returns. SHAPE: they are not as many as `dims` says. */
    template <class T> static outcome<tensor> try_view(std::string name, std::initializer_list<std::int64_t> dims, span<const T> elements)
    {
        tensor t(std::move(name));
        pen_error why{};
        auto status = pen_tensor_from_array(t.name_.c_str(), dtype_of<T>(), dims.begin(), static_cast<std::uint32_t>(dims.size()),
                                            elements.data(), &t.native_, &why);
        if (status == PEN_OK && t.native_.bytes != elements.size() * sizeof(T)) {
            return failure{PEN_ERR_SHAPE,
                           "tensor \"" + t.name_ + "\": " + std::to_string(elements.size()) + " elements do not make up its dimensions."};
        }
        return status == PEN_OK ? outcome<tensor>(std::move(t)) : failure{status, why.text};
    }
    template <class C> static auto try_view(std::string name, std::initializer_list<std::int64_t> dims, const C &container)
    {
        using E = std::remove_cv_t<std::remove_reference_t<decltype(*std::data(container))>>;
        return try_view<E>(std::move(name), dims, span<const E>(std::data(container), std::size(container)));
    }
    /** The same, and throws. */
    template <class C> static tensor view(std::string name, std::initializer_list<std::int64_t> dims, const C &container)
    {
        return try_view(std::move(name), dims, container).value();
    }
    /** Owns a copy of the texts. */
    static outcome<tensor> try_texts(std::string name, std::initializer_list<std::int64_t> dims, span<const std::string> texts)
    {
        tensor t(std::move(name));
        auto block = std::make_shared<std::vector<unsigned char>>();
        for (const std::string &text : texts) {
            for (unsigned shift = 0; shift < 32; shift += 8) {
                block->push_back(static_cast<unsigned char>(text.size() >> shift));
            }
            block->insert(block->end(), text.begin(), text.end());
        }
        t.native_.dtype = PEN_DTYPE_STRING;
        t.native_.data = block->data();
        t.native_.bytes = block->size();
        t.owner_ = std::move(block);
        if (dims.size() > PEN_MAX_RANK) {
            return failure{PEN_ERR_SHAPE, "tensor \"" + t.name_ + "\" has too many dimensions."};
        }
        for (std::int64_t dim : dims) {
            t.native_.dims[t.native_.rank++] = dim;
        }
        pen_error why{};
        auto status = pen_tensor_check(t.native(), &why);
        return status == PEN_OK ? outcome<tensor>(std::move(t)) : failure{status, why.text};
    }
    /** Takes what pen_client_picture() gave. */
    static tensor adopt(pen_tensor &&picture)
    {
        tensor t(picture.name);
        t.native_ = picture;
        t.owner_ = std::shared_ptr<const void>(picture.data, [picture](const void *) mutable { pen_picture_free(&picture); });
        return t;
    }
    /** For calls of client.h; lives as long as this tensor stays where it is. */
    const pen_tensor *native() const noexcept
    {
        native_.name = name_.c_str();
        return &native_;
    }

  private:
    explicit tensor(std::string name) : name_(std::move(name)) {}
    std::string name_;
    mutable pen_tensor native_{};
    std::shared_ptr<const void> owner_;
};

/* ---- results ---- */

/** An output. It views the result, and must not outlive it. */
class output
{
  public:
    explicit output(const pen_tensor *native) noexcept : native_(native) {}
    std::string_view name() const noexcept { return native_->name; }
    pen_dtype dtype() const noexcept { return native_->dtype; }
    span<const std::int64_t> shape() const noexcept { return {native_->dims, native_->rank}; }
    span<const std::byte> bytes() const noexcept { return {static_cast<const std::byte *>(native_->data), native_->bytes}; }
    /** The elements without a copy. Empty when they are of another type or not aligned for T, as may be: then take copy(). */
    template <class T> span<const T> view() const noexcept
    {
        bool fits = native_->dtype == dtype_of<T>() && reinterpret_cast<std::uintptr_t>(native_->data) % alignof(T) == 0;
        return fits ? span<const T>(static_cast<const T *>(native_->data), native_->bytes / sizeof(T)) : span<const T>();
    }
    /** The elements; DTYPE when they are of another type. */
    template <class T> outcome<std::vector<T>> try_copy() const
    {
        static_assert(!std::is_same_v<T, bool>, "take copy<unsigned char>() of the bytes: std::vector<bool> has no elements");
        bool boolean = native_->dtype == PEN_DTYPE_BOOL && std::is_same_v<T, unsigned char>;
        if (native_->dtype != dtype_of<T>() && !boolean) {
            return failure{PEN_ERR_DTYPE, "output \"" + std::string(name()) + "\" is " + pen_dtype_name(dtype()) + ", not " +
                                              pen_dtype_name(dtype_of<T>()) + "."};
        }
        std::vector<T> elements(native_->bytes / sizeof(T));
        if (!elements.empty()) {
            std::memcpy(elements.data(), native_->data, native_->bytes);
        }
        return elements;
    }
    template <class T> std::vector<T> copy() const { return try_copy<T>().value(); }
    /** The texts of a tensor of texts; of others none. */
    std::vector<std::string_view> texts() const
    {
        std::vector<std::string_view> found;
        const auto *at = static_cast<const unsigned char *>(native_->data);
        std::size_t left = native_->dtype == PEN_DTYPE_STRING ? native_->bytes : 0;
        while (left >= 4) {
            std::size_t size = at[0] | std::size_t{at[1]} << 8 | std::size_t{at[2]} << 16 | std::size_t{at[3]} << 24;
            if (size > left - 4) {
                break;
            }
            found.emplace_back(reinterpret_cast<const char *>(at + 4), size);
            at += 4 + size, left -= 4 + size;
        }
        return found;
    }

  private:
    const pen_tensor *native_;
};

/** How a job ended: well, with outputs, or not, with a status and a sentence. */
class result
{
  public:
    explicit result(pen_result *native) noexcept : native_(native) {}
    pen_status status() const noexcept { return pen_result_status(native_.get()); }
    explicit operator bool() const noexcept { return status() == PEN_OK; }
    /** One sentence, "" when all is well. */
    const char *error_text() const noexcept { return pen_result_error(native_.get()); }
    /** Throws when the job did not end well. */
    const result &check() const { return *this ? *this : (raise(failure{status(), error_text()}), *this); }
    const struct pen_result_info &info() const noexcept { return *pen_result_info(native_.get()); }
    /** Of a job with PEN_JOB_DEBUG: a line per operator; else empty. */
    std::string_view debug_log() const noexcept { return pen_result_debug_log(native_.get()); }
    std::size_t size() const noexcept { return pen_result_outputs(native_.get()); }
    /** @param index less than size(). */
    output operator[](std::size_t index) const noexcept { return output(pen_result_output(native_.get(), index)); }
    std::optional<output> find(const std::string &name) const
    {
        const pen_tensor *found = pen_result_find(native_.get(), name.c_str());
        return found ? std::optional<output>(found) : std::nullopt;
    }
    /** The best classes of a row, best first; their names live as long as the result (pen_result_top()). */
    std::vector<pen_class> top(std::size_t most, std::uint32_t row = 0) const
    {
        std::vector<pen_class> best(most);
        best.resize(pen_result_top(native_.get(), row, most, best.data()));
        return best;
    }
    /** With PEN_JOB_EXPLAIN; else NULL. */
    const pen_explanation *explanation() const noexcept { return pen_result_explanation(native_.get()); }
    const pen_result *native() const noexcept { return native_.get(); }

  private:
    struct freed {
        void operator()(pen_result *r) const noexcept { pen_result_free(r); }
    };
    std::unique_ptr<pen_result, freed> native_;
};

} // namespace penstock

#endif
