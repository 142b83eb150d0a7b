package source

import "testing"

func TestWords(t *testing.T) {
	for class, want := range map[string]string{"n01440764": "tench, Tinca tinca", "n02012849": "crane", "n03126707": "crane", "n02113186": "Cardigan, Cardigan Welsh corgi",
		"n15075141": "toilet tissue, toilet paper, bathroom tissue", "n00000001": "", "cat": ""} {
		if got := Words(class); got != want {
			t.Errorf("%s is %q, want %q", class, got, want)
		}
	}
	if len(words()) != 1000 {
		t.Errorf("words of %d classes", len(words()))
	}
}
