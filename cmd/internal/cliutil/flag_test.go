package cliutil

import "testing"

func TestSeed(t *testing.T) {
	draws, packs := Seed(new(int64)), Seed(new(uint64))
	for _, test := range []struct {
		text         string
		draws, packs bool
	}{
		{"0", true, true}, {"7", true, true}, {"0x10", true, true}, {"9223372036854775807", true, true},
		{"-1", true, false}, {"-9223372036854775808", true, false},
		{"9223372036854775808", false, false}, {"-9223372036854775809", false, false}, {"1.5", false, false}, {"1e3", false, false}, {"", false, false}, {" 5", false, false},
	} {
		if err := draws.Set(test.text); (err == nil) != test.draws {
			t.Errorf("draws: %q: %v", test.text, err)
		}
		if err := packs.Set(test.text); (err == nil) != test.packs {
			t.Errorf("packs: %q: %v", test.text, err)
		}
	}
	if draws.String() != "-9223372036854775808" || packs.String() != "9223372036854775807" {
		t.Errorf("the last ones are %v and %v", draws, packs)
	}
}
