package arena;

import arena.Items.Item;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Handler;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.ServerWebSocket;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.FileSystemAccess;
import io.vertx.ext.web.handler.StaticHandler;
import io.vertx.grpc.server.GrpcServer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The arena's application with Vert.x. Variables tell it where to listen and what to serve; bench/arena/doors.py has them. */
public final class Main extends AbstractVerticle {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static List<Item> dataset;

  static String variable(String name, String otherwise) {
    return System.getenv().getOrDefault(name, otherwise);
  }

  static int between(int low, int high, int value) {
    return Math.max(low, Math.min(high, value));
  }

  private static int parsed(String text, int otherwise) {
    try {
      return text == null ? otherwise : Integer.parseInt(text.trim());
    } catch (NumberFormatException problem) {
      return otherwise;
    }
  }

  static int number(RoutingContext context, String name, int otherwise) {
    return parsed(context.request().getParam(name), otherwise);
  }

  static Buffer encode(Object value) {
    try {
      return Buffer.buffer(MAPPER.writeValueAsBytes(value));
    } catch (JsonProcessingException problem) {
      throw new IllegalStateException(problem);
    }
  }

  static void json(RoutingContext context, int status, Object value) {
    Buffer content = value instanceof io.vertx.core.json.JsonObject object ? object.toBuffer() : encode(value);
    context.response().setStatusCode(status).putHeader("Content-Type", "application/json").end(content);
  }

  private static void text(RoutingContext context, String content) {
    context.response().putHeader("Content-Type", "text/plain").end(content);
  }

  private static void sum(RoutingContext context) {
    int total = number(context, "a", 0) + number(context, "b", 0);
    if (context.request().method().name().equals("POST")) {
      context.request().body().onSuccess(body -> text(context, Integer.toString(total + parsed(body.toString(), 0))));
    } else {
      text(context, Integer.toString(total));
    }
  }

  private static void upload(RoutingContext context) {
    long[] size = {0};
    context.request().handler(piece -> size[0] += piece.length());
    context.request().endHandler(nothing -> text(context, Long.toString(size[0])));
  }

  private static void things(RoutingContext context) {
    int count = between(0, dataset.size(), parsed(context.pathParam("count"), 0));
    int factor = number(context, "m", 1);
    List<Item> found = dataset.subList(0, count).stream().map(item -> item.withTotal(factor)).toList();
    json(context, 200, new Items.Listed(found, count));
  }


  private Router router() {
    Router router = Router.router(vertx);
    router.route("/baseline11").handler(Main::sum);
    router.route("/baseline2").handler(Main::sum);
    router.get("/pipeline").handler(context -> text(context, "ok"));
    router.get("/json/:count").handler(Main::things);
    router.post("/upload").handler(Main::upload);
    router.get("/static/*").handler(
        StaticHandler.create(FileSystemAccess.ROOT, Path.of(variable("ARENA_DATA", "/data"), "static").toAbsolutePath().toString())
            .setCachingEnabled(false));
    String url = System.getenv("DATABASE_URL");
    if (url != null) {
      new Store(vertx, url, parsed(variable("DATABASE_MAX_CONN", "32"), 32)).route(router);
    }
    return router;
  }

  private static void echo(ServerWebSocket socket) {
    socket.textMessageHandler(socket::writeTextMessage);
    socket.binaryMessageHandler(socket::writeBinaryMessage);
  }

  private HttpServerOptions door(String name, String otherwise) {
    return new HttpServerOptions().setHost(variable("ARENA_HOST", "0.0.0.0")).setPort(parsed(variable(name, otherwise), 0))
        .setAcceptBacklog(4096).setCompressionSupported(true).setMaxWebSocketMessageSize(1 << 20).setMaxWebSocketFrameSize(1 << 20);
  }

  private HttpServerOptions secured(HttpServerOptions options, HttpVersion... versions) {
    return options.setSsl(true).setUseAlpn(true).setAlpnVersions(List.of(versions)).setKeyCertOptions(
        new PemKeyCertOptions().setCertPath(variable("ARENA_CERTIFICATE", "/certs/server.crt"))
            .setKeyPath(variable("ARENA_KEY", "/certs/server.key")));
  }

  @Override
  public void start(Promise<Void> started) {
    Router router = router();
    GrpcServer calls = Calls.server(vertx);
    Handler<HttpServerRequest> calling = request -> {
      String kind = request.getHeader("Content-Type");
      if (request.version() == HttpVersion.HTTP_2 && kind != null && kind.startsWith("application/grpc")) {
        calls.handle(request);
      } else {
        router.handle(request);
      }
    };
    Handler<HttpServerRequest> onlyHttp2 = request -> {
      if (request.version() == HttpVersion.HTTP_2) {
        router.handle(request);
      } else {
        request.response().setStatusCode(505).end().onComplete(done -> request.connection().close());
      }
    };
    Future.all(
            vertx.createHttpServer(door("ARENA_HTTP_PORT", "8080")).requestHandler(calling).webSocketHandler(Main::echo).listen(),
            vertx.createHttpServer(door("ARENA_H2C_PORT", "8082")).requestHandler(onlyHttp2).listen(),
            vertx.createHttpServer(secured(door("ARENA_TLS_PORT", "8081"), HttpVersion.HTTP_1_1)).requestHandler(router).listen(),
            vertx.createHttpServer(secured(door("ARENA_H2_PORT", "8443"), HttpVersion.HTTP_2, HttpVersion.HTTP_1_1))
                .requestHandler(calling).listen())
        .<Void>mapEmpty().onComplete(started);
  }

  public static void main(String[] arguments) throws Exception {
    byte[] content = Files.readAllBytes(Path.of(variable("ARENA_DATA", "/data"), "dataset.json"));
    dataset = MAPPER.readValue(content, new TypeReference<List<Item>>() {});
    int cores = parsed(variable("ARENA_CORES", "1"), 1);
    Vertx.vertx().deployVerticle(Main.class.getName(), new DeploymentOptions().setInstances(cores)).onFailure(problem -> {
      problem.printStackTrace();
      System.exit(1);
    });
  }
}
