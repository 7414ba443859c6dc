// Command arena is the arena's application with net/http and pgx. Environment variables tell it where to listen and
// what to serve; bench/arena/doors.py has them.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"
	"github.com/klauspost/compress/gzhttp"
)

func variable(name, otherwise string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return otherwise
}

func writeText(response http.ResponseWriter, text string) {
	response.Header().Set("Content-Type", "text/plain")
	io.WriteString(response, text)
}

func writeJSON(response http.ResponseWriter, status int, value any) {
	content, err := json.Marshal(value)
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	response.Write(content)
}

// number is a parameter of the address, or another number where it is missing or wrong.
func number(request *http.Request, name string, otherwise int) int {
	if found, err := strconv.Atoi(request.URL.Query().Get(name)); err == nil {
		return found
	}
	return otherwise
}

func sum(response http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	total := 0
	for _, name := range []string{"a", "b"} {
		found, _ := strconv.Atoi(query.Get(name))
		total += found
	}
	if request.Method == http.MethodPost {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		found, _ := strconv.Atoi(strings.TrimSpace(string(body)))
		total += found
	}
	writeText(response, strconv.Itoa(total))
}

func upload(response http.ResponseWriter, request *http.Request) {
	count, err := io.Copy(io.Discard, request.Body)
	if err != nil {
		return
	}
	writeText(response, strconv.FormatInt(count, 10))
}

type rating struct {
	Score int `json:"score"`
	Count int `json:"count"`
}

type item struct {
	ID       int             `json:"id"`
	Name     string          `json:"name"`
	Category string          `json:"category"`
	Price    int             `json:"price"`
	Quantity int             `json:"quantity"`
	Active   bool            `json:"active"`
	Tags     json.RawMessage `json:"tags"`
	Rating   rating          `json:"rating"`
}

// thing is an item of the data set, whose tags are taken apart when the program starts.
type thing struct {
	ID       int      `json:"id"`
	Name     string   `json:"name"`
	Category string   `json:"category"`
	Price    int      `json:"price"`
	Quantity int      `json:"quantity"`
	Active   bool     `json:"active"`
	Tags     []string `json:"tags"`
	Rating   rating   `json:"rating"`
	Total    int      `json:"total"`
}

type list[T any] struct {
	Items []T `json:"items"`
	Count int `json:"count"`
}

func things(all []thing) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		count, err := strconv.Atoi(request.PathValue("count"))
		if err != nil {
			http.NotFound(response, request)
			return
		}
		count = max(0, min(count, len(all)))
		factor := number(request, "m", 1)
		chosen := make([]thing, count)
		for index := range chosen {
			chosen[index] = all[index]
			chosen[index].Total = chosen[index].Price * chosen[index].Quantity * factor
		}
		writeJSON(response, http.StatusOK, list[thing]{chosen, count})
	}
}

var upgrader = websocket.Upgrader{}

func echo(response http.ResponseWriter, request *http.Request) {
	connection, err := upgrader.Upgrade(response, request, nil)
	if err != nil {
		return
	}
	defer connection.Close()
	for {
		kind, message, err := connection.ReadMessage()
		if err != nil || connection.WriteMessage(kind, message) != nil {
			return
		}
	}
}

func routes(data string, rows *store) http.Handler {
	var all []thing
	content, err := os.ReadFile(filepath.Join(data, "dataset.json"))
	if err == nil {
		err = json.Unmarshal(content, &all)
	}
	if err != nil {
		log.Fatal(err)
	}
	files := compressedFiles{filepath.Join(data, "static")}
	mux := http.NewServeMux()
	mux.HandleFunc("/baseline11", sum)
	mux.HandleFunc("/baseline2", sum)
	mux.HandleFunc("GET /pipeline", func(response http.ResponseWriter, _ *http.Request) { writeText(response, "ok") })
	mux.Handle("GET /json/{count}", gzhttp.GzipHandler(things(all)))
	mux.HandleFunc("POST /upload", upload)
	mux.Handle("GET /static/", http.StripPrefix("/static/", files))
	mux.HandleFunc("GET /ws", echo)
	if rows != nil {
		mux.HandleFunc("GET /async-db", rows.search)
		mux.HandleFunc("GET /crud/items", rows.page)
		mux.HandleFunc("GET /crud/items/{id}", rows.read)
		mux.HandleFunc("POST /crud/items", rows.create)
		mux.HandleFunc("PUT /crud/items/{id}", rows.update)
	}
	return mux
}

func listen(port string) net.Listener {
	listener, err := net.Listen("tcp", variable("ARENA_HOST", "0.0.0.0")+":"+port)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func protocols(http1, http2, clear bool) *http.Protocols {
	var chosen http.Protocols
	chosen.SetHTTP1(http1)
	chosen.SetHTTP2(http2)
	chosen.SetUnencryptedHTTP2(clear)
	return &chosen
}

func main() {
	var rows *store
	if url := os.Getenv("DATABASE_URL"); url != "" {
		found, err := openStore(context.Background(), url, variable("DATABASE_MAX_CONN", "32"))
		if err != nil {
			log.Fatal(err)
		}
		rows = found
	}
	handler := routes(variable("ARENA_DATA", "/data"), rows)
	certificate, key := variable("ARENA_CERTIFICATE", "/certs/server.crt"), variable("ARENA_KEY", "/certs/server.key")
	plain := &http.Server{Handler: handler, Protocols: protocols(true, false, false)}
	clear := &http.Server{Handler: handler, Protocols: protocols(false, false, true)}
	secure := &http.Server{Handler: handler, Protocols: protocols(true, false, false), TLSConfig: &tls.Config{}}
	http2 := &http.Server{Handler: handler, Protocols: protocols(true, true, false), TLSConfig: &tls.Config{}}
	go func() { log.Fatal(clear.Serve(listen(variable("ARENA_H2C_PORT", "8082")))) }()
	go func() { log.Fatal(secure.ServeTLS(listen(variable("ARENA_TLS_PORT", "8081")), certificate, key)) }()
	go func() { log.Fatal(http2.ServeTLS(listen(variable("ARENA_H2_PORT", "8443")), certificate, key)) }()
	log.Fatal(plain.Serve(listen(variable("ARENA_HTTP_PORT", "8080"))))
}
