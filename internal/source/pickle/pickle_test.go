package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/sourcetest"
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
		"strings":      {"](U\x01aT\x01\x00\x00\x00bX\x02\x00\x00\x00\xc3\xa9\x8c\x01c\x8d\x01\x00\x00\x00\x00\x00\x00\x00dC\x01eB\x01\x00\x00\x00f\x8e\x01\x00\x00\x00\x00\x00\x00\x00ge.", list(String("a"), String("b"), String("é"), String("c"), String("d"), String("e"), String("f"), String("g"))},
		"tuples":       {"()K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87(K\x04tt.", Tuple{Tuple{}, Tuple{int64(1)}, Tuple{int64(1), int64(2)}, Tuple{int64(1), int64(2), int64(3)}, Tuple{int64(4)}}},
		"a dictionary": {"}U\x01aK\x01s(U\x01bK\x02U\x01aNu.", &Dict{Items: map[string]Value{"a": nil, "b": int64(2)}}},
		"a frame":      {"\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00K\x05.", int64(5)},
		"latin1":       {"c_codecs\nencode\nX\x03\x00\x00\x00a\xc3\xbfX\x06\x00\x00\x00latin1\x86R.", String("a\xff")},
		"an array":     {reconstruct + "(K\x01K\x02K\x03\x86" + uint8Type + "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06abcdeftb.", &Array{Shape: []int{2, 3}, Data: []byte("abcdef")}},
		"its new name": {"\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93cnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01K\x01\x85" + uint8Type + "\x89C\x01ztb.", &Array{Shape: []int{1}, Data: []byte("z")}},
	} {
		got, err := Read([]byte(tc.pickle))
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %#v, %v, want %#v", name, got, err, tc.want)
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
		"":                                       "byte 0: cut short",
		"\xff\xd8\xff\xe0":                       "not a pickle that is read",
		"cos\nsystem\n(U\x02lstR.":               `refused: it wants to use "system" of Python's module "os"`,
		"cbuiltins\neval\n.":                     `"eval" of Python's module "builtins"`,
		"\x8c\x05posix\x8c\x06system\x93.":       `"system" of Python's module "posix"`,
		"c" + long + "\ny\n.":                    `refused`,
		"cos\nsystem":                            "cut short",
		"K\x01K\x02\x93.":                        "no string",
		"(cnumpy\ndtype\no.":                     "0x6f is refused",
		"(inumpy\ndtype\n.":                      "0x69 is refused",
		"K\x00Q.":                                "0x51 is refused", // BINPERSID
		"K\x00\x82\x01.":                         "0x82 is refused", // EXT1
		"N)\x81.":                                "0x81 is refused", // NEWOBJ
		"NF1.5\n.":                               "0x46 is refused", // FLOAT
		"cnumpy\ndtype\nU\x02f4\x85R.":           `type "f4"`,
		"cnumpy\ndtype\n)R.":                     "refused: it wants to call",
		"cnumpy\nndarray\nK\x01\x85R.":           "refused: it wants to call",
		"NK\x01\x85R.":                           "refused: it wants to call",
		"U\x01a)R.":                              "refused: it wants to call",
		"c_codecs\nencode\nU\x01aU\x03rot\x86R.": "another encoding",
		"c_codecs\nencode\nU\x02\xc4\x80U\x06latin1\x86R.": "above 255",
		"c_codecs\nencode\nU\x01\xffU\x06latin1\x86R.":     "above 255",
		"}U\x01a\x85b.":     "refused: it wants to set the state",
		"}K\x01b.":          "a state that is no tuple",
		reconstruct + ")b.": "0 parts",
		reconstruct + "(K\x01K\x02\x85" + uint8Type + "\x89U\x01atb.":                                             "shape [2] with 1 bytes",
		reconstruct + "(K\x01K\x01\x85" + uint8Type + "\x88U\x01atb.":                                             "Fortran",
		reconstruct + "(K\x01K\x01\x85N\x89U\x01atb.":                                                             "something else",
		reconstruct + "(K\x01J\xff\xff\xff\xff\x85" + uint8Type + "\x89U\x01atb.":                                 "impossible shape",
		reconstruct + "(K\x01(J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7ft" + uint8Type + "\x89U\x01atb.": "impossible shape",
		reconstruct + "(K\x01K\x01\x85" + uint8Type + "\x89U\x01atb(K\x01K\x01\x85" + uint8Type + "\x89U\x01atb.": "twice",
		"\x80\x05N.":                             "protocol 5",
		"T\xff\xff\xff\xff.":                     "negative length",
		"\x8e\xff\xff\xff\xff\xff\xff\xff\xffa.": "cut short",
		"h\x07.":                                 "nothing was stored at 7",
		"q\x07.":                                 "stack is empty",
		"(q\x07.":                                "a mark where",
		"(.":                                     "a mark where",
		".":                                      "stack is empty",
		"e.":                                     "no mark",
		"(K\x01a.":                               "a mark where",
		"(Na.":                                   "a mark where",
		"NNa.":                                   "no list",
		"K\x01a.":                                "stack is empty",
		"}K\x01Ns.":                              "no string",
		"}U\x01aNU\x01bu.":                       "no mark",
		"}(U\x01au.":                             "without a value",
		"]U\x01aNs.":                             "no dictionary",
		"N\x86.":                                 "2 values are wanted",
		"K\x01(K\x02\x86.":                       "2 values are wanted",
		"N.N":                                    "1 bytes behind the end",
		"}T\x2c\x01\x00\x00" + long + "Ns.":      "more than 256 bytes",
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
	encodeAgain := append([]byte("c_codecs\nencode\nq\x00X\x00\x00\x01\x00"), bytes.Repeat([]byte("a"), 1<<16)...)
	encodeAgain = append(encodeAgain, "q\x01X\x06\x00\x00\x00latin1q\x02"...)
	for name, pickle := range map[string][]byte{
		"many lists":        bytes.Repeat([]byte("]"), OpcodesMax+1),
		"many tuples":       append([]byte(")"), bytes.Repeat([]byte("\x85"), OpcodesMax+1)...),
		"bytes made anew":   append(encodeAgain, bytes.Repeat([]byte("h\x00h\x01h\x02\x86R"), 1000)...),
		"a shape of ones":   []byte(reconstruct + "(K\x01(" + strings.Repeat("K\x01", 100) + "t" + uint8Type + "\x89U\x01atb."),
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
		if a, ok := v.(*Array); ok {
			size := 1
			for _, n := range a.Shape {
				size *= n
			}
			if a.Shape != nil && size != len(a.Data) {
				t.Errorf("shape %v with %d bytes", a.Shape, len(a.Data))
			}
		}
	})
}
