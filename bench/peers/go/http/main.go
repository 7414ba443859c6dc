// Command http answers every request with "Pong!", or serves the files of a directory, with package net/http.
// Usage: http PORT [DIRECTORY]. GOMAXPROCS gives the number of cores.
package main

import (
	"log"
	"net/http"
	"os"
)

func pong(body []byte) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Type", "text/plain")
		response.Write(body)
	})
}

func main() {
	handler := pong([]byte("Pong!"))
	if len(os.Args) > 2 {
		handler = http.FileServer(http.Dir(os.Args[2]))
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
}
