package kernel

import "testing"

func TestParseLevelRoundTrip(t *testing.T) {
	for _, l := range []Level{Generic, AVX2, AVX512} {
		got, err := ParseLevel(l.String())
		if err != nil || got != l {
			t.Errorf("ParseLevel(%q) = %v, %v; want %v", l.String(), got, err, l)
		}
	}
	if _, err := ParseLevel("sse9"); err == nil {
		t.Error("ParseLevel accepted an unknown level")
	}
}

func TestActiveIsAvailable(t *testing.T) {
	levels := Available()
	if len(levels) == 0 || levels[0] != Generic {
		t.Fatalf("Available() = %v, want it to start with generic", levels)
	}
	if a := Active(); a > levels[len(levels)-1] {
		t.Errorf("Active() = %v, above the highest available level %v", a, levels[len(levels)-1])
	}
}

func TestCheckEnv(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "generic": true, "avx2": true, "fast": false} {
		t.Setenv(EnvVar, value)
		if err := CheckEnv(); (err == nil) != ok {
			t.Errorf("%s=%q: CheckEnv() = %v", EnvVar, value, err)
		}
	}
}
