package metrics

import (
	"context"
	"os"
	"strings"
	"testing"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCollector(t *testing.T) {
	client, err := dlock.Open(os.Getenv("DLOCK_TEST_URL"))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(client, prometheus.Labels{"client": "orders"}))
	lock, err := client.Mutex("go metrics")
	if err != nil {
		t.Fatal(err)
	}
	grant, err := lock.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	expected := `
		# HELP dlock_acquired_total Grants to owners, without re-entry.
		# TYPE dlock_acquired_total counter
		dlock_acquired_total{client="orders"} 1
		# HELP dlock_held Locks held.
		# TYPE dlock_held gauge
		dlock_held{client="orders"} 1
	`
	if err = testutil.GatherAndCompare(registry, strings.NewReader(expected), "dlock_acquired_total", "dlock_held"); err != nil {
		t.Fatal(err)
	}
	if err = grant.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]uint64{}
	for _, family := range families {
		if histogram := family.Metric[0].Histogram; histogram != nil {
			held[family.GetName()] = histogram.GetSampleCount()
		}
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", family.GetName())
		}
	}
	if held["dlock_hold_seconds"] != 1 || held["dlock_grant_handovers"] != 1 || len(held) != 5 {
		t.Fatal(held)
	}
	if err = client.Close(); err != nil {
		t.Fatal(err)
	}
	if families, err = registry.Gather(); err != nil || len(families) == 0 {
		t.Fatal(families, err)
	}
}
