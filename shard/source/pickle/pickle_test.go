package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

const (
	reconstruct = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
	uint8Type   = "cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
)

func list(items ...Value) *List { return &List{Items: items} }

func TestValues(t *testing.T) {
	for name, tc := range map[string]struct {
		pickle string
		want   Value
	}{
		"none":         {"N.", nil},
		"true":         {"\x80\x02\x88.", true},
		"numbers":      {"]K\xffaM\xff\xffaJ\xff\xff\xff\xffaJ\x00\x00\x00\x7fa.", list(int64(255), int64(65535), int64(-1), int64(0x7f000000))},
		"strings":      {"](U\x01aT\x01\x00\x00\x00bX\x02\x00\x00\x00\xc3\xa9\x8c\x01cC\x01dB\x01\x00\x00\x00ee.", list(String("a"), String("b"), String("é"), String("c"), String("d"), String("e"))},
		"tuples":       {"()K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87(K\x04tt.", Tuple{Tuple{}, Tuple{int64(1)}, Tuple{int64(1), int64(2)}, Tuple{int64(1), int64(2), int64(3)}, Tuple{int64(4)}}},
		"a dictionary": {"}U\x01aK\x01s(U\x01bK\x02U\x01aNu.", Dict{"a": nil, "b": int64(2)}},
		"a frame":      {"\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x05.", int64(5)},
		"a call":       {"c_codecs\nencode\nU\x01a\x85R.", &Object{Callable: nameEncode, Args: Tuple{String("a")}}},
		"its state":    {"c_codecs\nencode\n)RNbK\x01\x86.", Tuple{&Object{Callable: nameEncode, Args: Tuple{}}, int64(1)}},
	} {
		got, err := Read([]byte(tc.pickle))
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %#v, %v, want %#v", name, got, err, tc.want)
		}
	}
}

func TestUint8(t *testing.T) {
	array := func(shape, kind, order, content string) []byte {
		return []byte(reconstruct + "(K\x01" + shape + kind + order + content + "tb.")
	}
	const two, latin1 = "K\x02K\x03\x86", "c_codecs\nencode\nX\x07\x00\x00\x00abcde\xc3\xbfX\x06\x00\x00\x00latin1\x86R"
	aligned := uint8Type + "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
	for name, tc := range map[string]struct {
		pickle []byte
		want   string // the bytes, or the error
	}{
		"Python 2":          {array(two, aligned, "\x89", "U\x06abcdef"), "abcdef"},
		"order 0":           {array(two, uint8Type, "K\x00", "U\x06abcdef"), "abcdef"},
		"Python 3":          {array(two, uint8Type, "\x89", latin1), "abcde\xff"},
		"numpy 2":           {[]byte("\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93cnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01K\x02K\x03\x86" + uint8Type + "\x89C\x06abcdeftb."), "abcdef"},
		"too few":           {array(two, uint8Type, "\x89", "U\x05abcde"), "an array of 2×3 with 5 bytes"},
		"of floats":         {array(two, "cnumpy\ndtype\nU\x02f4\x85R", "\x89", "U\x06abcdef"), "not rows and columns of u1"},
		"of no type":        {array(two, "cnumpy\ndtype\n)R", "\x89", "U\x06abcdef"), "not rows and columns of u1"},
		"of what is none":   {array(two, "N", "\x89", "U\x06abcdef"), "not rows and columns of u1"},
		"Fortran":           {array(two, uint8Type, "\x88", "U\x06abcdef"), "Fortran order"},
		"one dimension":     {array("K\x06\x85", uint8Type, "\x89", "U\x06abcdef"), "not rows and columns"},
		"negative":          {array("J\xff\xff\xff\xffJ\xfa\xff\xff\xff\x86", uint8Type, "\x89", "U\x06abcdef"), "not rows and columns"},
		"huge":              {array("J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86", uint8Type, "\x89", "U\x06abcdef"), "not rows and columns"},
		"a code point":      {array(two, uint8Type, "\x89", "c_codecs\nencode\nX\x02\x00\x00\x00\xc4\x80X\x06\x00\x00\x00latin1\x86R"), "code point above 255"},
		"without a state":   {[]byte(reconstruct + "."), "what is no array"},
		"a state of itself": {[]byte(reconstruct + "q\x01h\x01b."), "what is no array"},
		"a number":          {[]byte("K\x01."), "a int64, not an array"},
	} {
		v, err := Read(tc.pickle)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, rows, columns, err := Uint8(v)
		if good := err == nil && rows == 2 && columns == 3 && string(data) == tc.want; !good && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %d×%d, %q, %v, want %q", name, rows, columns, data, err, tc.want)
		}
	}
}

func TestMemo(t *testing.T) {
	// [7, 7, itself, itself]: the list at 5, the number at 256, and at 2, which MEMOIZE takes, the list again.
	v, err := Read([]byte("]q\x05(K\x07r\x00\x01\x00\x00j\x00\x01\x00\x00h\x05\x94h\x02e."))
	if err != nil {
		t.Fatal(err)
	}
	l, ok := v.(*List)
	if !ok || len(l.Items) != 4 || l.Items[0] != Value(int64(7)) || l.Items[1] != Value(int64(7)) || l.Items[2] != Value(l) || l.Items[3] != Value(l) {
		t.Errorf("read %T with other items", v)
	}
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("x", 300)
	for pickle, want := range map[string]string{
		"":                                  "byte 0: cut short",
		"\xff\xd8\xff\xe0":                  "0xff is refused",
		"cos\nsystem\n(U\x02lstR.":          `refused: it wants to use "system" of Python's module "os"`,
		"cbuiltins\neval\n.":                `"eval" of Python's module "builtins"`,
		"\x8c\x05posix\x8c\x06system\x93.":  `"system" of Python's module "posix"`,
		"c" + long + "\ny\n.":               `refused`,
		"cos\nsystem":                       "cut short",
		"K\x01K\x02\x93.":                   `refused: it wants to use ""`,
		"(cnumpy\ndtype\no.":                "0x6f is refused",
		"(inumpy\ndtype\n.":                 "0x69 is refused",
		"K\x00Q.":                           "0x51 is refused", // BINPERSID
		"K\x00\x82\x01.":                    "0x82 is refused", // EXT1
		"N)\x81.":                           "0x81 is refused", // NEWOBJ
		"NF1.5\n.":                          "0x46 is refused", // FLOAT
		"}K\x01b.":                          "a state for what is no object",
		"\x80\x05N.":                        "protocol 5",
		"T\xff\xff\xff\xff.":                "cut short",
		"h\x07.":                            "nothing was stored at 7",
		"q\x07.":                            "the stack has fewer",
		"(q\x07.":                           "the stack has fewer",
		"(.":                                "the stack has fewer",
		".":                                 "the stack has fewer",
		"e.":                                "no mark",
		"(K\x01a.":                          "the stack has fewer",
		"(Na.":                              "the stack has fewer",
		"NNa.":                              "no list",
		"K\x01a.":                           "the stack has fewer",
		"}K\x01Ns.":                         "no string",
		"}U\x01aNU\x01bu.":                  "no mark",
		"}(U\x01au.":                        "without a value",
		"]U\x01aNs.":                        "no dictionary",
		"N\x86.":                            "2 values are wanted",
		"K\x01(K\x02\x86.":                  "2 values are wanted",
		"N.N":                               "1 bytes after the end",
		"}T\x2c\x01\x00\x00" + long + "Ns.": "more than 256 bytes",
	} {
		v, err := Read([]byte(pickle))
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, %v, want a FormatError with %q", pickle, v, err, want)
		}
	}
}

// TestBombs checks that small pickles that want much memory are refused soon.
func TestBombs(t *testing.T) {
	for name, pickle := range map[string][]byte{
		"many lists":        bytes.Repeat([]byte("]"), OpcodesMax+1),
		"many tuples":       append([]byte(")"), bytes.Repeat([]byte("\x85"), OpcodesMax+1)...),
		"many memo entries": bytes.Repeat([]byte("N\x94"), OpcodesMax),
	} {
		if _, err := Read(pickle); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCutShort checks that a batch that ends anywhere before its end is an error.
func TestCutShort(t *testing.T) {
	batch := sourcetest.CIFARPython(sourcetest.CIFARBatches(1))["data_batch_1"]
	for n := range batch {
		if _, err := Read(batch[:n]); err == nil {
			t.Errorf("%d of %d bytes give no error", n, len(batch))
		}
	}
	if _, err := Read(batch); err != nil {
		t.Error(err)
	}
}

func TestPartsOfTheInput(t *testing.T) {
	data := []byte("\x80\x02U\x03abc.")
	v, err := Read(data)
	s, ok := v.(String)
	if err != nil || !ok || &s[0] != &data[4] || cap(s) != 3 {
		t.Errorf("%v, %v: want a part of the input, with no capacity beyond", v, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, batches := range sourcetest.CIFARPython(sourcetest.CIFARBatches(1)) {
		small := bytes.ReplaceAll(batches, binary.LittleEndian.AppendUint32(nil, 3*3072), []byte{16, 0, 0, 0})
		f.Add(small[:min(len(small), 1000)])
	}
	f.Add([]byte(reconstruct + "(K\x01K\x02K\x03\x86" + uint8Type + "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06abcdeftb."))
	f.Add([]byte("c_codecs\nencode\nX\x03\x00\x00\x00a\xc3\xbfX\x06\x00\x00\x00latin1\x86R."))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Read(data)
		var format *FormatError
		if err != nil && !errors.As(err, &format) {
			t.Errorf("%T: %v", err, err)
		}
		if data, rows, columns, err := Uint8(v); err == nil && rows*columns != len(data) {
			t.Errorf("%d×%d with %d bytes", rows, columns, len(data))
		}
	})
}
