package alternation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A finding is a place where legacy SSE and vectors of 256 or 512 bits meet.
type finding struct {
	function string
	rule     rule
	detail   string
}

type rule uint8

const (
	// mixes: a function has vector instructions of 256 or 512 bits, and legacy SSE.
	mixes rule = iota
	// calls: a function calls, with upper halves that may hold something, what comes to legacy SSE or is not known.
	calls
	// leaves: a function may return with upper halves that hold something, to one that has no such vectors itself.
	leaves
)

func (r rule) String() string { return [...]string{"mixes", "calls", "leaves"}[r] }

// A state says how the upper halves may be at a place: as a set, so that where ways join both hold.
type state uint8

const (
	clean state = 1 << iota
	dirty
)

// A summary is what follows from entering a function in one state.
type summary struct {
	exit state  // at its returns
	sse  string // a way to legacy SSE with dirty upper halves, "" if there is none
}

type entry struct {
	f  *function
	in state // clean or dirty
}

// An analysis follows the upper halves through a program: from every function with wide vectors, into what it calls by address.
type analysis struct {
	*program
	summaries map[entry]*summary
	order     []entry
	changed   bool
	ignored   func(name string) bool // calls that are not followed
}

// analyse returns what it finds, by function. ignored names functions whose calls do not count.
//
// The upper halves of all registers count as one: dirty after any vector instruction of 256 or 512 bits, clean after VZEROUPPER and
// VZEROALL. Of joining ways the dirty one counts. A function is followed anew for each state in which it is entered, direct calls and
// jumps out of it included. What is called through a value has to be entered clean, and to return clean.
func (p *program) analyse(ignored func(name string) bool) []finding {
	a := &analysis{program: p, summaries: make(map[entry]*summary), ignored: ignored}
	callers := p.callers()
	for _, f := range p.functions {
		if f.wide {
			a.summary(f, clean)
		}
	}
	for a.changed = true; a.changed; {
		a.changed = false
		for i := 0; i < len(a.order); i++ { // it grows
			a.follow(a.order[i], nil)
		}
	}
	var found []finding
	for _, f := range p.functions {
		if f.wide {
			found = append(found, a.findings(f, callers[f])...)
		}
	}
	slices.SortStableFunc(found, func(x, y finding) int { return cmp.Compare(x.function, y.function) })
	return found
}

// callers returns who calls or jumps to each function by its address.
func (p *program) callers() map[*function][]*function {
	callers := make(map[*function][]*function)
	for _, f := range p.functions {
		for i, in := range f.code {
			if in.kind == call || in.kind == jump || in.kind == branch {
				if g := p.starting(f.at(i) + uint64(in.target)); g != nil && (g != f || in.kind == call) {
					callers[g] = append(callers[g], f)
				}
			}
		}
	}
	return callers
}

func (a *analysis) summary(f *function, in state) *summary {
	key := entry{f, in}
	s := a.summaries[key]
	if s == nil {
		s = &summary{}
		a.summaries[key] = s
		a.order = append(a.order, key)
		a.changed = true
	}
	return s
}

// findings applies the three rules to a function that has wide vectors.
func (a *analysis) findings(f *function, callers []*function) (found []finding) {
	var legacy, whileDirty int
	var called []string
	a.follow(entry{f, clean}, func(i int, s state, note string) {
		if f.code[i].legacySSE {
			legacy++
			if s&dirty != 0 {
				whileDirty++
			}
		}
		if note != "" && !slices.Contains(called, note) {
			called = append(called, note)
		}
	})
	if legacy > 0 {
		found = append(found, finding{f.name, mixes, fmt.Sprintf("%d legacy SSE instructions, %d where upper halves may be in use", legacy, whileDirty)})
	}
	for _, c := range called {
		found = append(found, finding{f.name, calls, c})
	}
	if a.summaries[entry{f, clean}].exit&dirty != 0 {
		to := ""
		if a.pointed[f.address] || len(callers) == 0 {
			to = "whoever calls it through a value"
		}
		for _, c := range callers {
			if !c.wide {
				to = c.name
			}
		}
		if to != "" {
			found = append(found, finding{f.name, leaves, "returns to " + to})
		}
	}
	return found
}

// follow goes through a function from one state at its entry until nothing changes, and notes what that shows in its summary. With visit, it
// tells that of every instruction that is reached what state it is reached in, and of calls what is wrong with them.
func (a *analysis) follow(key entry, visit func(i int, s state, note string)) {
	f, sum := key.f, a.summaries[key]
	states := make([]state, len(f.code))
	notes := make(map[int]string)
	states[0] = key.in
	work := []int{0}
	reach := func(i int, s state) {
		if i < len(states) && states[i]|s != states[i] {
			states[i] |= s
			work = append(work, i)
		}
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		a.step(f, sum, i, states[i], reach, notes)
	}
	if visit == nil {
		return
	}
	for i, s := range states {
		if s != 0 {
			visit(i, s, notes[i])
		}
	}
}

// step takes one instruction: it says by reach where that goes on, and in which state.
func (a *analysis) step(f *function, sum *summary, i int, s state, reach func(int, state), notes map[int]string) {
	in := f.code[i]
	switch {
	case in.clears:
		s = clean
	case in.legacySSE && s&dirty != 0:
		a.note(sum, fmt.Sprintf("%s+%#x", f.name, f.offsets[i]))
	case in.wide:
		s = dirty
	}
	target := f.at(i) + uint64(in.target)
	switch in.kind {
	case plain, ripAddress:
		reach(i+1, s)
	case branch, jump:
		if in.kind == branch {
			reach(i+1, s)
		}
		if to, ok := f.index[uint32(target-f.address)]; ok && target >= f.address && target-f.address < 1<<32 {
			reach(to, s)
			return
		}
		a.leave(sum, a.enter(f, sum, i, target, s, notes))
	case call:
		if after := a.enter(f, sum, i, target, s, notes); after != 0 {
			reach(i+1, after)
		}
	case callFar:
		if s&dirty != 0 {
			notes[i] = fmt.Sprintf("+%#x calls through a value", f.offsets[i])
			a.note(sum, f.name+notes[i])
		}
		reach(i+1, clean)
	case jumpFar:
		if !a.table(f, s, reach) {
			a.leave(sum, s)
		}
	case ret:
		a.leave(sum, s)
	}
}

// table reaches all that jump tables may lead to in a function, and returns false if it has none.
func (a *analysis) table(f *function, s state, reach func(int, state)) bool {
	found := false
	for i := range f.code {
		if i > 0 && a.pointed[f.at(i)] {
			reach(i, s)
			found = true
		}
	}
	return found
}

// enter goes through what is called at an address, and returns the state after it: none if it does not return.
func (a *analysis) enter(f *function, sum *summary, i int, target uint64, s state, notes map[int]string) (after state) {
	g := a.starting(target)
	switch {
	case g == nil: // into the middle of a function, as duffzero and duffcopy are entered
		if s&dirty != 0 {
			notes[i] = fmt.Sprintf("+%#x calls %#x, the middle of a function", f.offsets[i], target)
			a.note(sum, f.name+notes[i])
		}
		return s
	case neverReturns(g.name):
		return 0
	case a.ignored(g.name):
		return s
	}
	if s&clean != 0 {
		after |= clean
		if g.wide {
			after = a.summary(g, clean).exit
			if !f.wide {
				after = clean // g is to blame, and found
			}
		}
	}
	if s&dirty != 0 {
		entered := a.summary(g, dirty)
		after |= entered.exit
		if entered.sse != "" {
			notes[i] = fmt.Sprintf("+%#x comes to legacy SSE: %s", f.offsets[i], entered.sse)
			a.note(sum, fmt.Sprintf("%s+%#x → %s", f.name, f.offsets[i], entered.sse))
		}
	}
	return after
}

func (a *analysis) note(sum *summary, way string) {
	if sum.sse == "" {
		sum.sse = way
		a.changed = true
	}
}

func (a *analysis) leave(sum *summary, s state) {
	if sum.exit|s != sum.exit {
		sum.exit |= s
		a.changed = true
	}
}

// neverReturns: the ways in which Go gives up. What they cost does not matter.
func neverReturns(name string) bool {
	for _, prefix := range []string{"runtime.panic", "runtime.goPanic", "runtime.gopanic", "runtime.throw", "runtime.fatal"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
