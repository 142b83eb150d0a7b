package status

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestTextFits looks at the width of the text, and at the commands in it, which can be copied.
func TestTextFits(t *testing.T) {
	for _, path := range []string{"/data/train-shards", "/mnt/" + strings.Repeat("x", 90), "/data/a set/" + strings.Repeat("y", 60)} {
		set := Set{ServedSet{Split: "train", Samples: 1281167, Classes: 1000, Partitions: 8, Stored: "original", KeepsFiles: true, Here: make([]int, 8)}, path, false}
		s := Session{Split: "train", Rank: 127, World: 128, ClientPID: 4194304, Slots: 16, SlotsLent: 16, WaitingFor: CPU, Counts: Counts{Images: 1}, Set: &set}
		s.judge(&Status{Threads: 64})
		st := Status{
			Server: "imgfeed 0.1.0", Sets: []Set{set}, Sessions: []Session{s, s}, History: make([]Moment, 1), Threads: 64, Store: &Store{}, Feeders: &Feeders{},
			Damaged: []string{"partition 1 of 3 is not whole: /data/train-shards/rank-0001/00000.imgshard is missing, and so are others that come after it"},
		}
		st.judge()
		text := st.String()
		for _, line := range strings.Split(text, "\n") {
			if utf8.RuneCountInString(line) > 80 && !strings.Contains(line, "/mnt/") && !strings.HasPrefix(line, commandIndent) {
				t.Errorf("more than 80 columns: %s", line)
			}
		}
		for _, line := range strings.Split(s.Advice, "\n") {
			testenv.Check(t, !strings.HasPrefix(line, commandIndent) || strings.Contains(text, line+"\n"), "no %q in\n%s", line, text)
		}
	}
}
