package ledger

import (
	"errors"
	"os"
	"sync"

	"penstock/proxy/telemetry/observe"
)

type roundOutcome int

const (
	roundWritten roundOutcome = iota
	roundWaiting              // the previous process still holds the ledger
	roundFailing
)

func classifyRound(err error) roundOutcome {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return roundFailing // the ledger cannot even be read
	}
	var locked *LockedError
	switch {
	case err == nil:
		return roundWritten
	case errors.As(err, &locked):
		return roundWaiting
	}
	return roundFailing
}

// predecessorRows contains the rows that were read from the ledger while the previous process still
// held the lock.
type predecessorRows struct {
	mu       sync.Mutex
	rows     map[rowID]observe.UsageAmount
	fileInfo os.FileInfo
}

func (b *predecessorRows) clearRows() { b.rows = nil }

// addNewUsage returns the usage in rows that has not been added yet. Unless all is true, it ignores
// the sum of old days, because this usage has already been added.
func (b *predecessorRows) addNewUsage(rows []observe.UsageRow, all bool) (news []observe.UsageRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.rows != nil
	if !again {
		b.rows = make(map[rowID]observe.UsageAmount, len(rows))
	}
	for _, r := range rows {
		if r.User != "" && !all || r.Day == observe.OlderDays && again {
			continue
		}
		id, amount := newRowID(&r), r.UsageAmount
		if r.UsageAmount = amount.ExcessOver(b.rows[id]); r.UsageAmount != (observe.UsageAmount{}) {
			b.rows[id] = amount
			news = append(news, r)
		}
	}
	return news
}

func (b *predecessorRows) fileChanged(file os.FileInfo) bool {
	was := b.fileInfo
	return was == nil || !os.SameFile(was, file) || was.Size() != file.Size() || !was.ModTime().Equal(file.ModTime())
}

// usageBetween returns a key's usage between two days (inclusive), according to the rows that have
// a model.
func (b *predecessorRows) usageBetween(key string, from, to int64) (sum observe.UsageAmount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, a := range b.rows {
		if id.key == key && id.user == "" && id.day >= from && id.day <= to {
			sum.Add(a)
		}
	}
	return sum
}
