package status

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
)

// textColumns is the width of [Status.String].
const textColumns = 80

// commandIndent begins the lines of an advice that are commands.
const commandIndent = "    "

// String describes the status for people, in lines of at most 80 columns. Longer words, such as paths, and commands stay whole.
func (st Status) String() string {
	var b strings.Builder
	say := func(format string, args ...any) {
		for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
			wrap(&b, line)
		}
	}
	up := time.Duration((st.Now - st.Started) * float64(time.Second)).Round(time.Second)
	say("%s, process %d, up %v, %s", st.Server, st.PID, up, bytesize.Counted(st.Threads, "decoding thread", "decoding threads"))
	if st.Page != "" {
		say("status page at %s", st.Page)
	}
	for _, set := range st.Sets {
		say("%s, at %s", set.String(), set.Path)
	}
	for _, text := range st.Damaged {
		say("damaged, and not served: %s", text)
	}
	say("%s images/s, %s delivered, %s blank, %s substituted; rings %s of %s", bytesize.Rounded(st.ImagesPerSecond),
		bytesize.Grouped(int(st.Images)), bytesize.Grouped(int(st.Blanks)), bytesize.Grouped(int(st.Substitutes)),
		bytesize.Format(st.RingBytes), bytesize.Format(st.RingLimitBytes))
	if n := len(st.History); n > 0 {
		m := st.History[n-1]
		say("threads: %2.0f %% read, %2.0f %% decode, %2.0f %% resize, %2.0f %% wait; shards %s/s",
			100*m.Read, 100*m.Decode, 100*m.Resample, 100*m.Wait, bytesize.Format(int64(m.Bytes)))
	}
	if st.Store != nil {
		say("%s", st.Store.text())
	}
	if st.Feeders != nil {
		say("%s", st.Feeders.text())
	}
	if len(st.Bad) > 0 {
		say("bad sample %d of %s (%s): %s", st.Bad[0].Index, st.Bad[0].Split, st.Bad[0].Key, st.Bad[0].Error)
	}
	say("%s\n%s", strings.TrimSpace(st.Verdict+". "+st.Advice), sessionTable(st.Sessions))
	return b.String()
}

// sessionTable is a table of the sessions.
func sessionTable(sessions []Session) string {
	if len(sessions) == 0 {
		return "no sessions"
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SPLIT\tRANK\tEPOCH\tDONE\tIMAGES/S\tLEFT\tWAITS FOR\tSLOTS\tPID")
	for i := range sessions {
		s := &sessions[i]
		epoch, done, left := "–", "–", "–"
		if s.Epoch != nil {
			epoch = fmt.Sprint(*s.Epoch)
			done = fmt.Sprintf("%d %%", 100*s.EpochSent/max(s.EpochBatches, 1))
			if s.SecondsLeft != nil {
				left = time.Duration(*s.SecondsLeft * float64(time.Second)).Round(time.Second).String()
			}
		}
		fmt.Fprintf(table, "%s\t%d/%d\t%s\t%s\t%s\t%s\t%s\t%d/%d\t%d\n",
			s.Split, s.Rank, s.World, epoch, done, bytesize.Rounded(s.ImagesPerSecond), left, s.WaitingFor, s.SlotsLent,
			s.Slots, s.ClientPID)
	}
	table.Flush()
	return "\n" + strings.TrimSpace(b.String())
}

// String describes the set in a line, without its path.
func (set *ServedSet) String() string {
	partitions := fmt.Sprintf("all %d partitions", set.Partitions)
	switch {
	case len(set.Here) != set.Partitions:
		partitions = fmt.Sprintf("partitions %v of %d", set.Here, set.Partitions)
	case set.Partitions == 1:
		partitions = "1 partition"
	}
	return fmt.Sprintf("%s: %s, %s, %s, %s, data %s", set.Split, bytesize.Counted(set.Samples, "sample", "samples"),
		bytesize.Counted(set.Classes, "class", "classes"), set.Stored, partitions, shard.Identity(set.Fingerprint, set.Content))
}

// wrap writes a line in several where it is too long. A command stays in a line, so that it can be copied.
func wrap(b *strings.Builder, line string) {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	words := strings.Split(text, " ")
	if strings.HasPrefix(line, commandIndent) {
		words = []string{text}
	}
	line = indent + words[0]
	for _, word := range words[1:] {
		if longer := line + " " + word; utf8.RuneCountInString(longer) <= textColumns {
			line = longer
		} else {
			b.WriteString(line + "\n")
			line = "  " + indent + word
		}
	}
	b.WriteString(line + "\n")
}
