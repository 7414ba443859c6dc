// The rows of the database, and the handlers that read and write them. Single rows are kept for 200 ms.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	columns = "id, name, category, price, quantity, active, tags, rating_score, rating_count"
	keep    = 200 * time.Millisecond
)

// kept is the JSON of a row, and when it is no longer good.
type kept struct {
	content []byte
	until   time.Time
}

type store struct {
	pool *pgxpool.Pool
	kept sync.Map // id -> kept
}

func openStore(ctx context.Context, url, connections string) (*store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	most, err := strconv.Atoi(connections)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(most)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return &store{pool: pool}, err
}

func scan(row pgx.CollectableRow) (item, error) {
	var found item
	err := row.Scan(&found.ID, &found.Name, &found.Category, &found.Price, &found.Quantity, &found.Active, &found.Tags,
		&found.Rating.Score, &found.Rating.Count)
	return found, err
}

func (rows *store) query(ctx context.Context, statement string, values ...any) ([]item, error) {
	found, err := rows.pool.Query(ctx, statement, values...)
	if err != nil {
		return nil, err
	}
	items, err := pgx.CollectRows(found, scan)
	if items == nil {
		items = []item{}
	}
	return items, err
}

func fail(response http.ResponseWriter, err error) {
	http.Error(response, err.Error(), http.StatusInternalServerError)
}

func (rows *store) search(response http.ResponseWriter, request *http.Request) {
	limit := max(1, min(number(request, "limit", 50), 50))
	items, err := rows.query(request.Context(), "SELECT "+columns+" FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3",
		number(request, "min", 10), number(request, "max", 50), limit)
	if err != nil {
		fail(response, err)
		return
	}
	writeJSON(response, http.StatusOK, list[item]{items, len(items)})
}

func (rows *store) page(response http.ResponseWriter, request *http.Request) {
	page, limit := max(1, number(request, "page", 1)), max(1, min(number(request, "limit", 10), 50))
	category := request.URL.Query().Get("category")
	if category == "" {
		category = "electronics"
	}
	items, err := rows.query(request.Context(),
		"SELECT "+columns+" FROM items WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3", category, limit, (page-1)*limit)
	if err != nil {
		fail(response, err)
		return
	}
	writeJSON(response, http.StatusOK, struct {
		Items []item `json:"items"`
		Total int    `json:"total"`
		Page  int    `json:"page"`
		Limit int    `json:"limit"`
	}{items, len(items), page, limit})
}

func writeKept(response http.ResponseWriter, state string, content []byte) {
	response.Header().Set("Content-Type", "application/json")
	response.Header().Set("X-Cache", state)
	response.Write(content)
}

func (rows *store) read(response http.ResponseWriter, request *http.Request) {
	id, err := strconv.Atoi(request.PathValue("id"))
	if err != nil {
		http.NotFound(response, request)
		return
	}
	if found, ok := rows.kept.Load(id); ok && time.Now().Before(found.(kept).until) {
		writeKept(response, "HIT", found.(kept).content)
		return
	}
	items, err := rows.query(request.Context(), "SELECT "+columns+" FROM items WHERE id = $1", id)
	if err != nil {
		fail(response, err)
		return
	}
	if len(items) == 0 {
		http.NotFound(response, request)
		return
	}
	content, err := json.Marshal(items[0])
	if err != nil {
		fail(response, err)
		return
	}
	rows.kept.Store(id, kept{content, time.Now().Add(keep)})
	writeKept(response, "MISS", content)
}

// written is the content of a request that makes or changes a row.
type written struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Category string `json:"category,omitempty"`
	Price    int    `json:"price"`
	Quantity int    `json:"quantity"`
}

func (rows *store) create(response http.ResponseWriter, request *http.Request) {
	var row written
	if err := json.NewDecoder(request.Body).Decode(&row); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	_, err := rows.pool.Exec(request.Context(),
		"INSERT INTO items ("+columns+") VALUES ($1, $2, $3, $4, $5, true, '[]', 0, 0) ON CONFLICT (id) DO UPDATE SET "+
			"name = EXCLUDED.name, category = EXCLUDED.category, price = EXCLUDED.price, quantity = EXCLUDED.quantity",
		row.ID, row.Name, row.Category, row.Price, row.Quantity)
	if err != nil {
		fail(response, err)
		return
	}
	rows.kept.Delete(row.ID)
	writeJSON(response, http.StatusCreated, row)
}

func (rows *store) update(response http.ResponseWriter, request *http.Request) {
	id, err := strconv.Atoi(request.PathValue("id"))
	var row written
	if err = errors.Join(err, json.NewDecoder(request.Body).Decode(&row)); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	done, err := rows.pool.Exec(request.Context(), "UPDATE items SET name = $2, price = $3, quantity = $4 WHERE id = $1",
		id, row.Name, row.Price, row.Quantity)
	if err != nil {
		fail(response, err)
		return
	}
	rows.kept.Delete(id)
	if done.RowsAffected() == 0 {
		http.NotFound(response, request)
		return
	}
	row.ID = id
	writeJSON(response, http.StatusOK, row)
}
