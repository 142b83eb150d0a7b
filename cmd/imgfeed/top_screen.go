package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/imgfeed/imgfeed/server/status"
)

// A topScreen shows a server's status in the terminal, and asks for it again and again.
type topScreen struct {
	where    string
	ask      func() (status.Status, error)
	interval time.Duration

	app    *tview.Application
	pages  *tview.Flex
	head   *tview.TextView
	table  *tview.Table
	advice *tview.TextView

	last status.Status
	lost time.Time // when answers ceased; zero while they come
}

func newTopScreen(where string, ask func() (status.Status, error), interval time.Duration) *topScreen {
	// The terminal's own colours, whatever they are.
	tview.Styles.PrimitiveBackgroundColor = tcell.ColorDefault
	tview.Styles.PrimaryTextColor = tcell.ColorDefault
	t := &topScreen{
		where: where, ask: ask, interval: interval, app: tview.NewApplication(),
		head: tview.NewTextView().SetWrap(false), table: tview.NewTable().SetFixed(1, 0).SetSelectable(true, false),
		advice: tview.NewTextView().SetWordWrap(true),
	}
	t.table.SetSelectedStyle(tcell.StyleDefault.Reverse(true))
	t.table.SetSelectionChangedFunc(func(int, int) { t.showAdvice() })
	t.pages = tview.NewFlex().SetDirection(tview.FlexRow).AddItem(t.head, 4, 0, false).AddItem(t.table, 0, 1, true).AddItem(t.advice, 6, 0, false)
	t.app.SetRoot(t.pages, true).SetInputCapture(func(key *tcell.EventKey) *tcell.EventKey {
		if key.Rune() == 'q' || key.Key() == tcell.KeyEscape {
			t.app.Stop()
			return nil
		}
		return key
	})
	return t
}

// run shows the screen until the user has enough or ctx ends.
func (t *topScreen) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		ticker := time.NewTicker(t.interval)
		defer ticker.Stop()
		for {
			st, err := t.ask()
			if ctx.Err() != nil {
				return
			}
			t.app.QueueUpdateDraw(func() { t.show(st, err) })
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	defer context.AfterFunc(ctx, t.app.Stop)()
	return t.app.Run()
}

// show shows an answer, or says that none comes.
func (t *topScreen) show(st status.Status, err error) {
	if err != nil {
		if t.lost.IsZero() {
			t.lost = time.Now()
		}
		head := []string{fmt.Sprintf("no answer on %s since %s, asking again: %v", t.where, t.lost.Format(time.TimeOnly), err)}
		if t.last.Server != "" {
			head = append(head, topHead(t.last)...)
		}
		t.showHead(head)
		return
	}
	t.last, t.lost = st, time.Time{}
	t.showHead(topHead(st))
	for column, name := range topColumns {
		t.table.SetCell(0, column, tview.NewTableCell(name).SetSelectable(false).SetAttributes(tcell.AttrBold).SetExpansion(1))
	}
	for i, s := range st.Sessions {
		for column, text := range topRow(s) {
			t.table.SetCell(i+1, column, tview.NewTableCell(tview.Escape(text)).SetExpansion(1))
		}
	}
	for t.table.GetRowCount() > len(st.Sessions)+1 {
		t.table.RemoveRow(t.table.GetRowCount() - 1)
	}
	t.showAdvice()
}

// headRowsMax leaves rows for the sessions, however long the head is.
const headRowsMax = 10

// showHead shows lines over the table, those that are too long for the screen in several rows.
func (t *topScreen) showHead(lines []string) {
	_, _, width, _ := t.pages.GetInnerRect()
	var rows []string
	for _, line := range lines {
		rows = append(rows, tview.WordWrap(line, width)...)
	}
	rows = rows[:min(len(rows), headRowsMax)]
	t.head.SetText(strings.Join(rows, "\n"))
	t.pages.ResizeItem(t.head, len(rows)+1, 0)
}

// showAdvice shows the chosen session's bottleneck, and what to do about it.
func (t *topScreen) showAdvice() {
	row, _ := t.table.GetSelection()
	if row < 1 || row > len(t.last.Sessions) {
		if len(t.last.Sessions) == 0 {
			t.advice.SetText("no sessions · q ends")
		}
		return
	}
	s := t.last.Sessions[row-1]
	t.advice.SetText(strings.TrimSpace(s.Verdict+". "+s.Advice) + " · q ends")
}
