// Package loader assembles batches: it reads samples of a set in the order of a plan, transforms them on a pool of
// workers, and hands finished batches out in order, some of them before a consumer wants them.
//
// A [Pool] owns the worker goroutines and is shared by all streams of a process. A [Stream] is one epoch, or the rest of
// one, for one consumer. Pixels go straight into [Slot]s that the consumer provides through a [SlotPool] (a shared-memory
// ring, say) and gives back when it has used them, so a slow consumer stops its own stream and nobody else's.
//
//	plan ─┬─► dispatch ─► scheduler ─► workers ─► Next ─► consumer
//	      │      ▲                        ▲                  │
//	      │      └──────────── pool of slots ◄───────────────┘
//	      └─► readahead ─► records ───────┘
//
// One goroutine of each stream (dispatch) takes a free slot, lists the batch's samples and publishes the batch to the pool's
// scheduler, which says what batch a worker works on next. Workers take samples of it by adding to its atomic counter, a few
// at a time. Records that are not in memory come from loader/readahead. Where all records are in memory, a sample takes no channel and
// no lock, and in the steady state it allocates nothing.
package loader
