/* The numbers of meta_fields.h are those of the .proto files. */
#include <criterion/criterion.h>

#include "control.pb-c.h"
#include "job.pb-c.h"
#include "meta_fields.h"
#include "tensor.pb-c.h"

static void expect_number(const ProtobufCMessageDescriptor *message, const char *name, unsigned number)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message, name);
    cr_assert_not_null(field, "%s has no field %s", message->name, name);
    cr_expect_eq(field->id, number, "%s.%s is field %u, not %u", message->name, name, field->id, number);
}

#define EXPECT(constant, name, number) expect_number(message, #name, constant);

Test(meta_fields, are_those_of_the_messages)
{
    const ProtobufCMessageDescriptor *message = &penstock__job_meta__descriptor;
    JOB_META_FIELDS(EXPECT)
    message = &penstock__result_meta__descriptor;
    RESULT_META_FIELDS(EXPECT)
    message = &penstock__layer_time__descriptor;
    LAYER_TIME_FIELDS(EXPECT)
    message = &penstock__tensor_desc__descriptor;
    TENSOR_DESC_FIELDS(EXPECT)
    message = &penstock__control_request__descriptor;
    CONTROL_REQUEST_FIELDS(EXPECT)
    message = &penstock__control_reply__descriptor;
    CONTROL_REPLY_FIELDS(EXPECT)
}
