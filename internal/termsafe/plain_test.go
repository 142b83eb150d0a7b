package termsafe

import (
	"bytes"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestText(t *testing.T) {
	for given, want := range map[string]string{
		"n01440764/été 猫\u00a0.jpg": "n01440764/été 猫\u00a0.jpg", `a"b\c`: `a"b\c`, "": "",
		"a\tb":        `"a\tb"`,
		"a\nb\"":      `"a\nb\""`,
		"\x1b[2J":     `"\x1b[2J"`,
		"a\xff":       `"a\xff"`,
		"gpj.\u202ea": `"gpj.\u202ea"`,
	} {
		testenv.Equal(t, Text(given), want, "%q is shown as", given)
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	given := "été\t猫\u00a0\x1b[2J\u009b\u202e\xff\r\n"
	n, err := (Writer{&out}).Write([]byte(given))
	testenv.Check(t, n == len(given) && err == nil, "%d bytes of %d, %v", n, len(given), err)
	want := "été\t猫\u00a0\ufffd[2J\ufffd\ufffd\ufffd\ufffd\n"
	testenv.Check(t, out.String() == want, "%q, want %q", out.String(), want)
}

func TestMessage(t *testing.T) {
	for text, want := range map[string]string{
		"shard: a-shards: no such sample":                            "a-shards: no such sample",
		"loader: sample 3 (a/b.jpg): shard: a-shards/rank-0000: EOF": "sample 3 (a/b.jpg): a-shards/rank-0000: EOF",
		"split train: loader: shard: a: b":                           "split train: a: b",
		"my shard: a":                                                "my shard: a",
	} {
		testenv.Equal(t, Message(text), want, "%q", text)
	}
}
