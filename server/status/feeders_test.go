package status

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestJudgeFeeders looks at the advice where threads and feeders do not keep up, and at what the terminal shows.
func TestJudgeFeeders(t *testing.T) {
	work := FeederWork{9000, 64, 1, 0, 1500, 3 << 20, 0.75}
	here, away := Feeder{Address: "a:1", Connections: 4, FeederWork: work}, Feeder{Address: "b:1", Trouble: "dial: connection refused"}
	for _, tt := range []struct {
		feeders         *Feeders
		verdict, advice string
	}{
		{nil, "2 threads spent most of the time", "more cores (--threads), or have other machines help (imgfeed feed)"},
		{&Feeders{}, "2 threads and 0 feeders do not keep up", "start imgfeed feed where --feeders names it."},
		{&Feeders{Each: []Feeder{away}}, "2 threads and 0 feeders do not keep up", "The last trouble with b:1: dial: connection refused."},
		{&Feeders{work, []Feeder{here, away}}, "2 threads and 1 feeder do not keep up", "1 feeder is not connected: the status names why. One feeder makes 1,500 images/s"},
		{&Feeders{work, []Feeder{here, here}}, "2 threads and 2 feeders do not keep up", "Add feeders: one makes 750 images/s now on average"},
	} {
		s := Session{WaitingFor: CPU, Set: &Set{}}
		s.judge(&Status{Threads: 2, Feeders: tt.feeders})
		testenv.Contains(t, s.Verdict, tt.verdict)
		testenv.Contains(t, s.Advice, tt.advice)
	}
	fs := Feeders{work, []Feeder{here, away}}
	of := "1,500 images/s, 75 % of all, 3.0 MiB/s; 1 piece late, 64 samples made again here"
	got, want := fs.text(), "feeders: 1 of 2 connected, "+of+"\n  a:1: "+of+"\n  b:1: not connected: dial: connection refused"
	testenv.Check(t, got == want, "%s\nwant\n%s", got, want)
}
