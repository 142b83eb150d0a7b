package dataset

import (
	"fmt"
	"strings"
	"testing"
)

func TestKnownCounts(t *testing.T) {
	wnids := func(n int) []string {
		classes := make([]string, n)
		for i := range classes {
			classes[i] = fmt.Sprintf("n%08d", i)
		}
		return classes
	}
	for _, tc := range []struct {
		classes int
		split   string
		want    string
	}{
		{21841, "train", "ImageNet-21k of fall 2011 has 14,197,122 images, and here are 7: 14,197,115 are missing"},
		{19167, "train", "ImageNet-21k of winter 2021 has 13,153,500 images, and here are 7"},
		{11221, "train", "ImageNet-21K-P of fall 2011 has 11,797,632 images"},
		{11221, "val", "ImageNet-21K-P of fall 2011 has 561,052 images"},
		{10450, "val", "ImageNet-21K-P of winter 2021 has 522,500 images"},
		{10451, "val", ""}, {21841, "val", ""},
	} {
		s := &Split{Name: tc.split}
		s.noteKnown(7, wnids(tc.classes))
		if notes := strings.Join(s.Notes(), "\n"); !strings.HasPrefix(notes, tc.want) || tc.want == "" && notes != "" {
			t.Errorf("%d classes, %s: %q, want %q", tc.classes, tc.split, notes, tc.want)
		}
	}
	s := &Split{Name: "train"}
	if s.noteKnown(7, append(wnids(21840), "cat")); len(s.Notes()) > 0 {
		t.Errorf("classes that are no wnids: %q", s.Notes())
	}
}
