package status

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
)

// WaitingFor names what keeps batches back.
type WaitingFor string

const (
	Disk      WaitingFor = "disk"   // most of the time no sample is at hand: they are being read
	FromStore WaitingFor = "store"  // the same, and they come from a bucket or a web server
	CPU       WaitingFor = "cpu"    // most of the time samples are at hand, to decode and resample
	Client    WaitingFor = "client" // batches are ready and every slot is in use
	Idle      WaitingFor = "idle"   // nobody wants a batch
)

// judge says in WaitingFor, Verdict and Advice what a session waits for, and what to do about it. The history has found by the waits
// whether it is the client, reads or the processors; here reads are the disk's or the store's. Remedies for the machine come first, and
// other encodings last, as they take a new set.
func (s *Session) judge(st *Status) {
	set, store, feeders := s.Set, st.Store, st.Feeders
	if !set.InStore {
		store = nil
	}
	if s.WaitingFor == Disk && store != nil && !store.onlyCache() {
		s.WaitingFor = FromStore
	}
	pixels, coefficients := "", ""
	if set.Stored == "original" {
		coefficients = "\nOr store coefficients: the same pixels in about half the time, for a seventh more bytes." +
			set.repack("coefficients", "")
	}
	if set.KeepsFiles {
		pixels = "\nOr store pixels, which are read and decoded in a fraction of the time. Pixels of eval stay the same; those of " +
			"train change, as it crops the smaller images." + set.repack("pixels", " --resize 256")
	}
	switch s.WaitingFor {
	case Client:
		s.Verdict, s.Advice = "training is the limit: batches were ready before they were asked for", "There is nothing to do here."
		if s.Epoch != nil && s.EpochSent == s.EpochBatches {
			s.Verdict = fmt.Sprintf("epoch %d: all batches are made, training is the limit", *s.Epoch)
		} else if s.Transport != SharedMemory {
			s.Verdict = "the client is the limit: it reads batches from its socket more slowly than they are made"
		}
	case Disk:
		s.Verdict = "the disk is the limit: most of the time batches waited for reads"
		s.Advice = "Put the set on a faster disk, or give the machine memory for it." + pixels
		if store != nil {
			s.Advice = "All comes from the cache: put that on a faster disk, or give the machine memory for it." + pixels
		}
	case FromStore:
		s.Verdict = "the store is the limit: most of the time batches waited for the bucket or web server"
		s.Advice = store.advice(pixels)
	case CPU:
		s.Verdict = fmt.Sprintf("the CPU is the limit: %s most of the time decoding and resizing",
			bytesize.Counted(st.Threads, "thread spent", "threads spent"))
		s.Advice = "Give the server more cores (--threads), or have other machines help (imgfeed feed)." + coefficients + pixels
		if feeders != nil {
			s.Verdict = fmt.Sprintf("the CPU is the limit: %s and %s do not keep up",
				bytesize.Counted(st.Threads, "thread", "threads"), bytesize.Counted(feeders.connected(), "feeder", "feeders"))
			s.Advice = feeders.advice() + coefficients + pixels
		}
	default:
		s.Verdict, s.Advice = "no epoch is running", ""
	}
}

// repack returns a line with the command that stores the set in another encoding. A joined set has none: each of its sets needs one.
func (s *Set) repack(encoding, flags string) string {
	if s.Joined != nil {
		return ""
	}
	out := s.Path + "-" + encoding
	if strings.Contains(out, "://") {
		out = path.Base(out)
	}
	in, out := termsafe.Shell(s.Path), termsafe.Shell(out)
	return fmt.Sprintf("\n%simgshard repack %s -o %s --encoding %s%s", commandIndent, in, out, encoding, flags)
}

// Waits are the words for what a session waits for, the most urgent first.
var Waits = []WaitingFor{FromStore, Disk, CPU, Client, Idle}

// judge says in Verdict and Advice what the most urgent of the sessions says.
func (st *Status) judge() {
	st.Verdict, st.Advice = "no training process is connected", ""
	if f := st.Feeding; f != nil {
		st.Verdict = fmt.Sprintf("this is a feeder: %s of servers, %s images/s, threads busy for %.0f %% of the time",
			bytesize.Counted(int(f.Connections), "connection", "connections"), bytesize.Rounded(st.ImagesPerSecond), 100*f.Busy)
	}
	worst := len(Waits)
	for i := range st.Sessions {
		s := &st.Sessions[i]
		if at := slices.Index(Waits, s.WaitingFor); at < worst {
			worst, st.Verdict, st.Advice = at, s.Verdict, s.Advice
			if len(st.Sessions) > 1 && s.WaitingFor != Client && s.WaitingFor != Idle {
				st.Verdict = fmt.Sprintf("%s, rank %d: %s", s.Split, s.Rank, s.Verdict)
			}
		}
	}
}
