/* safetensors: every rule of the format, sets of files, numbers of 16 bits, and files that appear whole or not at all. */
#include "model/model.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct SetFixture {
    Arena *arena;
    char folder[32];
} SetFixture;

static int set_up(void **state)
{
    static SetFixture t;
    t = (SetFixture){.arena = arena_new(), .folder = "/tmp/moec-tensors-XXXXXX"};
    *state = &t;
    return !t.arena || !mkdtemp(t.folder);
}

static int tear_down(void **state)
{
    SetFixture *t = *state;
    char path[512];
    DIR *d = opendir(t->folder);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", t->folder, e->d_name);
        unlink(path);
    }
    closedir(d);
    arena_free(t->arena);
    return rmdir(t->folder);
}

static const char *path_of(SetFixture *t, const char *name)
{
    return arena_printf(t->arena, "%s/%s", t->folder, name);
}

static void write_bytes(SetFixture *t, const char *name, const void *bytes, size_t len)
{
    FileWriter w = file_create(t->arena, path_of(t, name));
    file_append(&w, bytes, len);
    assert_null(file_commit(&w));
}

/* The bytes of a file with this header and `data` zeros behind it. */
static Text file_of(Arena *a, const char *header, size_t data)
{
    Text t = {.arena = a};
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        text_add_bytes(&t, &(char){(char)(n >> 8 * i)}, 1);
    text_add_bytes(&t, header, n);
    for (size_t i = 0; i < data; i++)
        text_add_bytes(&t, "", 1);
    return t;
}

static const char *parse(Arena *a, const char *header, size_t data, StoredTensors *out)
{
    Text t = file_of(a, header, data);
    char *exact = malloc(t.len); /* a reader beyond the end is found by the sanitizer */
    memcpy(exact, t.at, t.len);
    const char *error = safetensors_parse(a, "f", (const unsigned char *)exact, t.len, out);
    free(exact);
    return error;
}

static void refused(Arena *a, const char *header, size_t data, const char *want)
{
    StoredTensors tensors;
    const char *error = parse(a, header, data, &tensors);
    if (!error)
        fail_msg("not refused; expected: %s", want);
    assert_string_equal(error, want);
}

/* ---- one file ---- */

static void tensors_come_in_the_order_of_their_places(void **state)
{
    SetFixture *t = *state;
    StoredTensors all;
    assert_null(parse(t->arena,
                      "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                      "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                      "\"none\":{\"dtype\":\"BF16\",\"shape\":[4,0],\"data_offsets\":[8,8]},"
                      "\"__metadata__\":{\"format\":\"pt\"}}   ",
                      32, &all));
    assert_int_equal(all.len, 3);
    assert_string_equal(all.at[0].name, "a");
    assert_int_equal(all.at[0].rank, 0);
    assert_int_equal(stored_elements(&all.at[0]), 1);
    assert_string_equal(all.at[1].name, "none");
    assert_int_equal(all.at[1].bytes, 0);
    assert_string_equal(stored_shape_text(t->arena, &all.at[2]), "[2, 3]");
    assert_int_equal(all.at[2].bytes, 24);
}

static void the_header_has_a_length(void **state)
{
    Arena *a = ((SetFixture *)*state)->arena;
    StoredTensors all;
    static const unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    static const unsigned char beyond[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    assert_string_equal(safetensors_parse(a, "f", NULL, 0, &all),
                        "f: has 0 bytes: a header's length takes 8");
    assert_string_equal(safetensors_parse(a, "f", huge, 7, &all),
                        "f: has 7 bytes: a header's length takes 8");
    assert_string_equal(
        safetensors_parse(a, "f", huge, sizeof huge, &all),
        "f: the header has 18446744073709551615 bytes: at most 100000000, and not beyond the end");
    assert_string_equal(safetensors_parse(a, "f", beyond, sizeof beyond, &all),
                        "f: the header has 3 bytes: at most 100000000, and not beyond the end");
    refused(a, "", 4, "f: the header must begin with {");
    refused(a, " {}", 0, "f: the header must begin with {");
    refused(a, "{", 0, "f: header:1:1: string or '}' expected near end of file");
    refused(a, "{} x", 0, "f: header:1:4: end of file expected near 'x'");
    refused(a, "{\"a\":1,\"a\":2}", 0, "f: header:1:10: duplicate object key near '\"a\"'");
    refused(a, "{\"__metadata__\":{\"a\":1}}", 0, "f: __metadata__ is {\"a\":1}: must be an object of texts");
    refused(a, "{\"__metadata__\":[]}", 0, "f: __metadata__ is []: must be an object of texts");
    assert_null(parse(a, "{}", 0, &all));
}

static void entries_are_complete(void **state)
{
    Arena *a = ((SetFixture *)*state)->arena;
    refused(a, "{\"a\":1}", 0,
            "f: tensor \"a\": entry is 1: must be an object with dtype, shape and data_offsets");
    refused(a, "{\"a\\n\":{}}", 0,
            "f: tensor \"a\\n\": dtype is missing: must be one of: F32, BF16, F16, I32, I64");
    refused(a, "{\"a\":{\"dtype\":\"F8_E4M3\"}}", 0,
            "f: tensor \"a\": dtype is \"F8_E4M3\": must be one of: F32, BF16, F16, I32, I64");
    refused(a, "{\"a\":{\"dtype\":\"F32\"}}", 0,
            "f: tensor \"a\": shape is missing: must be a list of at most 8 extents");
    refused(a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1]}}", 0,
            "f: tensor \"a\": shape is [1,1,1,1,1,1,1,1,1]: must be a list of at most 8 extents");
    refused(a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1]}}", 0,
            "f: tensor \"a\": shape is [-1]: extents must be whole numbers from 0 on");
    refused(a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5]}}", 0,
            "f: tensor \"a\": shape is [1.5]: extents must be whole numbers from 0 on");
    refused(a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296]}}", 0,
            "f: tensor \"a\": shape is [4294967296,4294967296]: the number of elements must fit 64 bits");
    refused(a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807]}}", 0,
            "f: tensor \"a\": shape is [9223372036854775807]: the number of bytes must fit 64 bits");
}

static void places_fill_the_file(void **state)
{
    Arena *a = ((SetFixture *)*state)->arena;
#define ENTRY(name, shape, offsets) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
    refused(a, "{" ENTRY("a", "[2]", "[0]") "}", 8,
            "f: tensor \"a\": data_offsets is [0]: must be begin and end");
    refused(a, "{" ENTRY("a", "[2]", "[8,0]") "}", 8,
            "f: tensor \"a\": data_offsets is [8,0]: must be begin and end");
    refused(a, "{" ENTRY("a", "[2]", "[-8,0]") "}", 8,
            "f: tensor \"a\": data_offsets is [-8,0]: must be begin and end");
    refused(a, "{" ENTRY("a", "[2]", "[0,8]") "}", 7,
            "f: tensor \"a\": data_offsets is [0,8]: must be inside the 7 bytes behind the header");
    refused(a, "{" ENTRY("a", "[2]", "[0,4]") "}", 8,
            "f: tensor \"a\": data_offsets is [0,4]: must be 8 bytes, because F32 has shape [2]");
    refused(a, "{" ENTRY("a", "[2]", "[0,8]") "}", 9, "f: the last 1 bytes belong to no tensor");
    refused(a, "{" ENTRY("a", "[2]", "[0,8]") "," ENTRY("b", "[2]", "[4,12]") "}", 12,
            "f: tensor \"b\": begins at byte 4: the one before it ends at 8");
    refused(a, "{" ENTRY("a", "[2]", "[0,8]") "," ENTRY("b", "[1]", "[12,16]") "}", 16,
            "f: tensor \"b\": begins at byte 12: the one before it ends at 8");
    refused(a, "{" ENTRY("a", "[2]", "[0,8]") "," ENTRY("b", "[2]", "[0,8]") "}", 8,
            "f: tensor \"b\": begins at byte 0: the one before it ends at 8");
    refused(a, "{" ENTRY("a", "[2]", "[0,8]") "," ENTRY("b", "[0]", "[4,4]") "}", 8,
            "f: tensor \"b\": begins at byte 4: the one before it ends at 8");
#undef ENTRY
}

/* ---- sets of files ---- */

static void write_tensor(SetFixture *t, const char *file, const char *tensor, float value)
{
    StoredTensor one = {.name = tensor, .type = STORED_F32, .rank = 1, .shape = {1}};
    SafeWriter w = safetensors_create(t->arena, path_of(t, file), &one, 1);
    safetensors_append(&w, &value, sizeof value);
    assert_null(safetensors_commit(&w));
}

static const char *open_error(SetFixture *t, const char *name)
{
    SafeTensors s;
    const char *error = safetensors_open(t->arena, path_of(t, name), &s);
    safetensors_close(&s);
    return error ? error : "";
}

static void index_refused(SetFixture *t, const char *text, const char *want)
{
    write_bytes(t, "model.safetensors.index.json", text, strlen(text));
    const char *error = open_error(t, "");
    assert_string_equal(error, arena_printf(t->arena, want, t->folder));
}

static void an_index_names_files(void **state)
{
    SetFixture *t = *state;
    static const char text[] =
        "{\"metadata\":{},\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}}";
    SafeTensors s;
    float value;
    write_tensor(t, "1.safetensors", "a", 1);
    write_tensor(t, "2.safetensors", "b", 2);
    write_bytes(t, "model.safetensors.index.json", text, sizeof text - 1);
    assert_null(safetensors_open(t->arena, t->folder, &s));
    assert_int_equal(s.tensors.len, 2);
    stored_read(safetensors_find(&s, "b"), 0, 1, &value);
    assert_float_equal(value, 2, 0);
    assert_null(safetensors_find(&s, "c"));
    safetensors_close(&s);
}

static void an_index_and_its_files_agree(void **state)
{
    SetFixture *t = *state;
    write_tensor(t, "1.safetensors", "a", 1);
    write_tensor(t, "2.safetensors", "a", 2);
    index_refused(t, "", "%s//model.safetensors.index.json:1:0: '[' or '{' expected near end of file");
    index_refused(
        t, "{}",
        "%s//model.safetensors.index.json: weight_map is missing: must be an object: tensor -> file");
    index_refused(
        t, "{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
        "%s//model.safetensors.index.json: weight_map.a is \"../1.safetensors\": must be the name of a file "
        "beside the index");
    index_refused(
        t, "{\"weight_map\":{\"a\":7}}",
        "%s//model.safetensors.index.json: weight_map.a is 7: must be the name of a file beside the index");
    index_refused(t, "{\"weight_map\":{\"b\":\"1.safetensors\"}}",
                  "%s//model.safetensors.index.json: tensor b is not in 1.safetensors");
    index_refused(t, "{\"weight_map\":{\"a\":\"3.safetensors\"}}",
                  "%s//3.safetensors: cannot be read: No such file or directory");
    write_tensor(t, "3.safetensors", "b", 3);
    index_refused(t, "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\"}}",
                  "%s//model.safetensors.index.json: tensor b is not in 1.safetensors");
    static const char twice[] = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}";
    write_bytes(t, "model.safetensors.index.json", twice, sizeof twice - 1);
    assert_non_null(strstr(open_error(t, ""), "tensor a stands in "));
    static const char few[] = "{\"weight_map\":{}}";
    write_bytes(t, "model.safetensors.index.json", few, sizeof few - 1);
    assert_string_equal(open_error(t, ""), "");
}

static void a_path_is_a_file_or_a_folder(void **state)
{
    SetFixture *t = *state;
    SafeTensors s;
    assert_string_equal(
        open_error(t, "none"),
        arena_printf(t->arena, "%s/none: cannot be read: No such file or directory", t->folder));
    assert_string_equal(
        open_error(t, ""),
        arena_printf(t->arena, "%s//model.safetensors.index.json: cannot be read: No such file or directory",
                     t->folder));
    write_bytes(t, "empty.safetensors", "", 0);
    assert_string_equal(
        open_error(t, "empty.safetensors"),
        arena_printf(t->arena, "%s/empty.safetensors: has 0 bytes: a header's length takes 8", t->folder));
    write_tensor(t, "model.safetensors", "a", 1);
    assert_null(safetensors_open(t->arena, t->folder, &s));
    assert_int_equal(s.tensors.len, 1);
    safetensors_close(&s);
}

/* ---- writing ---- */

static void a_written_file_reads_back(void **state)
{
    SetFixture *t = *state;
    static const StoredTensor tensors[] = {
        {.name = "x \"\n\xc3\xa4", .type = STORED_I32, .rank = 2, .shape = {2, 1}},
        {.name = "none", .type = STORED_F32, .rank = 1, .shape = {0}},
        {.name = "h", .type = STORED_F16, .rank = 1, .shape = {3}},
    };
    static const int32_t whole[2] = {-5, 7};
    static const uint16_t halves[3] = {0x3c00, 0xc000, 0};
    SafeTensors s;
    float got[3];
    SafeWriter w = safetensors_create(t->arena, path_of(t, "x.safetensors"), tensors, 3);
    safetensors_append(&w, whole, sizeof whole);
    safetensors_append(&w, halves, sizeof halves);
    assert_null(safetensors_commit(&w));
    assert_null(safetensors_open(t->arena, path_of(t, "x.safetensors"), &s));
    assert_int_equal(s.tensors.len, 3);
    for (size_t i = 0; i < 3; i++)
        assert_non_null(safetensors_find(&s, tensors[i].name));
    const StoredTensor *x = safetensors_find(&s, tensors[0].name);
    assert_int_equal(x->type, STORED_I32);
    assert_memory_equal(x->at, whole, sizeof whole);
    assert_int_equal((size_t)(x->at - s.files.at[0].at) % 8, 0);
    stored_read(safetensors_find(&s, "h"), 0, 3, got);
    assert_float_equal(got[0], 1, 0);
    assert_float_equal(got[1], -2, 0);
    safetensors_close(&s);
}

static size_t count_files(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* An error, or a writer that is dropped, leaves the old file and nothing beside it. */
static void an_old_file_stays_until_the_new_one_is_whole(void **state)
{
    SetFixture *t = *state;
    StoredTensor one = {.name = "a", .type = STORED_F32, .rank = 1, .shape = {2}};
    float values[3] = {3, 4, 5}, got = 0;
    SafeTensors s;
    write_tensor(t, "a.safetensors", "a", 1);
    const char *path = path_of(t, "a.safetensors");
    SafeWriter few = safetensors_create(t->arena, path, &one, 1);
    safetensors_append(&few, values, 4);
    assert_int_equal(count_files(t->folder), 2);
    assert_string_equal(safetensors_commit(&few),
                        arena_printf(t->arena, "%s: fewer elements than its header says", path));
    SafeWriter many = safetensors_create(t->arena, path, &one, 1);
    safetensors_append(&many, values, 12);
    assert_string_equal(safetensors_commit(&many),
                        arena_printf(t->arena, "%s: more elements than its header says", path));
    SafeWriter dropped = safetensors_create(t->arena, path, &one, 1);
    safetensors_drop(&dropped);
    SafeWriter nowhere = safetensors_create(t->arena, path_of(t, "no/such"), &one, 1);
    safetensors_append(&nowhere, values, 8);
    assert_non_null(
        strstr(safetensors_commit(&nowhere), "no/such: cannot be written: No such file or directory"));
    assert_int_equal(count_files(t->folder), 1);
    assert_null(safetensors_open(t->arena, path, &s));
    stored_read(safetensors_find(&s, "a"), 0, 1, &got);
    assert_float_equal(got, 1, 0);
    safetensors_close(&s);
}

static void expect_bytes(SetFixture *t, const char *name, const char *bytes)
{
    MappedFile f;
    assert_null(file_map(t->arena, path_of(t, name), &f));
    assert_int_equal(f.len, strlen(bytes));
    assert_memory_equal(f.at, bytes, f.len);
    file_unmap(&f);
}

/* Also one that leads to a file that is not there yet. */
static void a_link_is_written_through(void **state)
{
    SetFixture *t = *state;
    struct stat st;
    assert_int_equal(symlink("second", path_of(t, "first")), 0);
    assert_int_equal(symlink(path_of(t, "x"), path_of(t, "second")), 0);
    for (int i = 0; i < 2; i++) {
        write_bytes(t, "first", i ? "new" : "old", 3);
        expect_bytes(t, "x", i ? "new" : "old");
        assert_true(lstat(path_of(t, "first"), &st) == 0 && S_ISLNK(st.st_mode));
        assert_true(lstat(path_of(t, "second"), &st) == 0 && S_ISLNK(st.st_mode));
        assert_int_equal(count_files(t->folder), 3);
    }
}

static void a_file_keeps_its_mode(void **state)
{
    SetFixture *t = *state;
    struct stat st;
    write_bytes(t, "x", "old", 3);
    assert_int_equal(chmod(path_of(t, "x"), 0640), 0);
    write_bytes(t, "x", "new", 3);
    expect_bytes(t, "x", "new");
    assert_true(stat(path_of(t, "x"), &st) == 0 && (st.st_mode & 0777) == 0640);
}

static void a_pipe_is_written_and_stays(void **state)
{
    SetFixture *t = *state;
    struct stat st;
    char got[4] = {0};
    assert_int_equal(mkfifo(path_of(t, "pipe"), 0600), 0);
    assert_int_equal(symlink("pipe", path_of(t, "link")), 0);
    const int fd = open(path_of(t, "pipe"), O_RDONLY | O_NONBLOCK);
    write_bytes(t, "link", "new", 3);
    assert_int_equal(read(fd, got, sizeof got), 3);
    assert_string_equal(got, "new");
    FileWriter w = file_create(t->arena, path_of(t, "pipe"));
    file_drop(&w);
    close(fd);
    assert_true(lstat(path_of(t, "pipe"), &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(count_files(t->folder), 2);
}

static void a_full_disk_is_an_error(void **state)
{
    SetFixture *t = *state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    FileWriter w = file_create(t->arena, path_of(t, "x"));
    fclose(w.file);
    w.file = fopen("/dev/full", "wb");
    file_append(&w, "x", 1);
    assert_non_null(strstr(file_commit(&w), "x: cannot be written: No space left on device"));
    assert_int_equal(count_files(t->folder), 0);
}

/* ---- numbers of 16 bits ---- */

static float read_bits(StoredType type, uint16_t bits)
{
    float f;
    StoredTensor t = {.type = type, .rank = 1, .shape = {1}, .at = (const unsigned char *)&bits};
    stored_read(&t, 0, 1, &f);
    return f;
}

static uint16_t convert(StoredType type, double value)
{
    uint16_t bits;
    stored_convert(type, &(float){(float)value}, 1, (unsigned char *)&bits);
    return bits;
}

static void every_short_number_reads_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = read_bits(STORED_F16, (uint16_t)bits), b16 = read_bits(STORED_BF16, (uint16_t)bits);
        double value =
            (bits & 0x7c00 ? 1024 + (bits & 1023) : bits & 1023) * pow(2, fmax(bits >> 10 & 31, 1) - 25);
        if ((bits >> 10 & 31) < 31 && half != (float)(bits & 0x8000 ? -value : value))
            fail_msg("half 0x%04x reads as %g", bits, half);
        if (isnan(half) ? !isnan(read_bits(STORED_F16, convert(STORED_F16, half)))
                        : convert(STORED_F16, half) != bits)
            fail_msg("half 0x%04x becomes 0x%04x", bits, convert(STORED_F16, half));
        if (isnan(b16) ? !isnan(read_bits(STORED_BF16, convert(STORED_BF16, b16)))
                       : convert(STORED_BF16, b16) != bits)
            fail_msg("bf16 0x%04x becomes 0x%04x", bits, convert(STORED_BF16, b16));
    }
}

static void numbers_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    assert_int_equal(convert(STORED_F16, 2049), 0x6800); /* ties to even */
    assert_int_equal(convert(STORED_F16, 2051), 0x6802);
    assert_int_equal(convert(STORED_F16, 65519.99), 0x7bff);
    assert_int_equal(convert(STORED_F16, 65520), 0x7c00);
    assert_int_equal(convert(STORED_F16, -1e30), 0xfc00);
    assert_int_equal(convert(STORED_F16, 0x1.8p-24), 2);
    assert_int_equal(convert(STORED_F16, 0x1p-25), 0);
    assert_int_equal(convert(STORED_F16, 0x1.ffcp-15), 0x0400); /* up to the smallest normal number */
    assert_int_equal(convert(STORED_BF16, 257), 0x4380);
    assert_int_equal(convert(STORED_BF16, 259), 0x4382);
    assert_int_equal(convert(STORED_BF16, 3.4e38), 0x7f80);
    assert_int_equal(convert(STORED_BF16, -INFINITY), 0xff80);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tensors_come_in_the_order_of_their_places),
        TEST(the_header_has_a_length),
        TEST(entries_are_complete),
        TEST(places_fill_the_file),
        TEST(an_index_names_files),
        TEST(an_index_and_its_files_agree),
        TEST(a_path_is_a_file_or_a_folder),
        TEST(a_written_file_reads_back),
        TEST(an_old_file_stays_until_the_new_one_is_whole),
        TEST(a_link_is_written_through),
        TEST(a_file_keeps_its_mode),
        TEST(a_pipe_is_written_and_stays),
        TEST(a_full_disk_is_an_error),
        TEST(every_short_number_reads_back),
        TEST(numbers_are_rounded_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
