package status

import (
	"fmt"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// Feeding is what a feeder does for servers. Its [Status].Images are those that it made for them.
type Feeding struct {
	Connections int64   `json:"connections"` // connections of servers
	Pieces      int64   `json:"pieces"`      // pieces made
	Busy        float64 `json:"busy"`        // share of the threads' time in the last seconds
}

// judge says in Verdict what a feeder does.
func (f *Feeding) judge(st *Status) {
	st.Verdict, st.Advice = fmt.Sprintf("this is a feeder: %s of servers, %s images/s, threads busy for %.0f %% of the time",
		bytesize.Counted(int(f.Connections), "connection", "connections"), bytesize.Grouped(int(st.ImagesPerSecond+0.5)), 100*f.Busy), ""
}
