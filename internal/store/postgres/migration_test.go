package postgres_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestTheMigrationFindsTheBucketsThatGoFinds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../schema/postgres/00002_leaders.sql")
	if err != nil {
		t.Fatal(err)
	}
	fill := regexp.MustCompile(`(?s)UPDATE schedule_runs SET shard.*?;`).FindString(string(text))
	store, url := fresh(t)
	keys := map[string]string{"plain": "k", "accents": "clé/ünïcode-日本", "slashes": "a/b/c"}
	for id, key := range keys {
		s := everySecond(id, noon)
		s.OverlapKey = key
		run := slotOf(&s, noon)
		create(t, store, noon, s)
		err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{id}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: id, Runs: []schedule.Run{run}, Now: noon}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	conn := connect(t, url)
	for _, step := range []string{"as they were inserted", "as the migration fills them in"} {
		for id, key := range keys {
			var got int
			if err := conn.QueryRow(t.Context(), `SELECT shard FROM schedule_runs WHERE schedule_id = $1`, id).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if want := schedule.Bucket("owner/" + key); got != want {
				t.Errorf("%s: the run of %s is in bucket %d, want %d", step, id, got, want)
			}
		}
		for _, statement := range []string{`UPDATE schedule_runs SET shard = -1`, fill} {
			if tag, err := conn.Exec(t.Context(), statement); err != nil || tag.RowsAffected() != int64(len(keys)) {
				t.Fatal(tag, err)
			}
		}
	}
}
