package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// Kinds of [errorMessage].
const (
	kindBadRequest  = "bad_request" // the request is malformed, impossible or over a limit; the client can change it
	kindCorrupt     = "corrupt"     // stored data is damaged
	kindUnsupported = "unsupported" // a version, format or feature that this server does not have
	kindMissing     = "missing"     // a set, partition or sample that is not here
	kindInternal    = "internal"    // the server's own fault, or the machine's
	kindStopped     = "stopped"     // not a fault: the server ends, and another one may follow
)

// errorKinds are the counted ones. The metrics show each of them from the beginning, as 0.
var errorKinds = []string{kindBadRequest, kindCorrupt, kindUnsupported, kindMissing, kindInternal}

// A kindError is an error of a kind, for faults that no other package has a type for.
type kindError struct {
	error
	kind string
}

func (e *kindError) Unwrap() error { return e.error }

// badRequest returns the error of a request that cannot be served as it is.
func badRequest(format string, args ...any) error {
	return &kindError{fmt.Errorf(format, args...), kindBadRequest}
}

// checkPlan returns an error if the set lacks a partition that the plan needs. Damaged ones come first: for those that are missing there
// are several ways out.
func checkPlan(set *shard.Set, p *plan.Plan) error {
	missing := slices.DeleteFunc(p.Partitions(), set.Has)
	if len(missing) == 0 {
		return nil
	}
	cfg := p.Config()
	for _, partition := range missing {
		if absence := set.Absence(partition); is[*shard.DamagedPartitionError](absence) {
			return fmt.Errorf("rank %d of world %d needs a partition that is damaged: %w; "+
				"then have the server look again (imgfeed reload), or start it", cfg.Rank, cfg.World, absence)
		}
	}
	advice := "copy what is missing"
	if cfg.Selection != nil {
		advice += ", or select samples of the partitions that are here: weights, repeats and a shuffled subset give any rank any of " +
			"their samples, an order gives each rank its own positions"
	} else if cfg.World != set.Partitions() {
		advice += fmt.Sprintf(", use a world of %d, one rank for each partition, or build it with --partitions %d",
			set.Partitions(), cfg.World)
	}
	return &kindError{fmt.Errorf("rank %d of world %d needs partitions that are not in %s: %s; %s", cfg.Rank, cfg.World, set.Dir(),
		shard.PartitionNames(missing), advice), kindMissing}
}

// kindOf classifies an error for the client, by its type. Whatever nobody has foreseen is internal.
func kindOf(err error) string {
	switch {
	case is[*wire.RequestError](err), is[*wire.SyntaxError](err), is[*plan.ConfigError](err), is[*transform.SpecError](err),
		is[*ring.RequestError](err), is[*transform.SizeError](err), is[*loader.NotBitExactError](err), is[*loader.FieldError](err):
		return kindBadRequest
	case is[*shard.UnsupportedError](err), is[*ring.UnavailableError](err), imagefile.IsUnsupported(err):
		return kindUnsupported
	case is[*shard.CorruptError](err), is[*shard.DamagedPartitionError](err), is[*transform.ImageError](err):
		return kindCorrupt
	case is[*shard.MissingPartitionError](err), errors.Is(err, shard.ErrNotFound):
		return kindMissing
	}
	if e, ok := errors.AsType[*kindError](err); ok {
		return e.kind
	}
	return kindInternal
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
