// Package loader assembles batches. It reads samples of a set in the order of a plan and transforms them on a pool of workers. It
// hands finished batches out in order, and prepares some of them before a consumer wants them.
//
// A [Pool] owns the worker goroutines and is shared by all streams of a process. A [Stream] is one epoch, or the rest of one, for one
// consumer. Pixels go straight into [Slot]s, which the consumer provides through a [SlotPool] (a shared-memory ring, say) and gives
// back after use. So a slow consumer stops only its own stream.
//
//	plan ─┬─► dispatch ─► scheduler ─► workers ─► Next ─► consumer
//	      │      ▲                        ▲                  │
//	      │      └──────────── pool of slots ◄───────────────┘
//	      └─► readahead ─► records ───────┘
//
// Each stream has a goroutine called dispatch. It takes a free slot, lists the batch's samples and publishes the batch to the pool's
// scheduler, which says what batch a worker works on next: one with samples at hand. Package loader/readahead reads the records that memory
// does not hold, and says which samples are at hand. Workers take a few of them at a time, under one lock, in any order; draws depend on a
// sample's key alone, so the bits stay the same. A worker never waits for a read. Where memory holds all records, workers take samples by
// adding to an atomic counter of the batch, so a sample takes no channel and no lock. In the steady state it allocates nothing.
package loader
