package pillowtest

import (
	"bytes"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestResamplerOf(t *testing.T) {
	for version, want := range map[string]string{
		"9.3.0": "", "9.4.0": "pillow-12", "10.0.0": "pillow-12", "12.3.1": "pillow-12", "13.0.0": "pillow-13", "14.1.0.dev0": "pillow-13", "": "", "x": "",
	} {
		testenv.Equal(t, resamplerOf(version), want, "Pillow %q has the bits of", version)
	}
}

func TestQuickAnswers(t *testing.T) {
	a := &Answers{t: t, want: []string{"352441c2"}} // of "abc"
	for k, c := range []struct {
		result string
		same   bool
	}{{"abc", true}, {"abd", false}} {
		err := a.Compare(0, []byte(c.result), nil)
		testenv.Check(t, (err == nil) == c.same, "result %d: %v", k, err)
	}
	testenv.Check(t, a.Compare(1, nil, nil) != nil, "a second result is Pillow's, but there is one checksum")
	live := &Answers{t: t, Live: true}
	var sent bytes.Buffer
	for _, result := range []string{"abc", "def"} {
		live.Writer(&sent).Write([]byte(result))
	}
	testenv.Check(t, len(live.seen) == 2 && live.seen[0] == a.want[0] && sent.String() == "abcdef", "%v, %q", live.seen, &sent)
	err := live.Compare(2, []byte("abd"), []byte("abc"))
	testenv.Check(t, err != nil && err.Error() == "byte 2 of result 2 is 100, Pillow's is 99", "%v", err)
}
