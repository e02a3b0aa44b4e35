// Draws the charts. Expressions are interpreted and never compiled, so that the page's policy can forbid code from text.
(function () {
  "use strict";
  var source = document.getElementById("charts-json");
  if (source) {
    var given = JSON.parse(source.textContent);
    var dark = window.matchMedia("(prefers-color-scheme: dark)");
    var narrow = window.matchMedia("(max-width: 40rem)");
    // Letters beside and below a chart take room that only the drawing knows: what is too much is taken off its width.
    var fitted = function (spec, room, over) {
      var copy = JSON.parse(JSON.stringify(spec));
      if (copy.facet && narrow.matches) copy.columns = 1;
      var chart = copy.spec || copy;
      if (copy.usermeta && copy.usermeta.fluid) {
        var beside = copy.facet ? Math.min(copy.columns || 2, 2) : 1;
        chart.width = Math.max(120, Math.min(copy.facet ? 400 : 720, (room - 100 * beside) / beside) - over / beside);
      }
      return copy;
    };
    var draw = function () {
      document.querySelectorAll(".chart").forEach(function (place) {
        var room = place.parentElement.clientWidth;
        var theme = given.themes[dark.matches ? "dark" : "light"];
        var config = Object.assign({}, theme, { background: "transparent" });
        if (narrow.matches) {
          config.legend = Object.assign({}, theme.legend, { columns: 1, labelLimit: 220, layout: { bottom: { direction: "vertical" } } });
          config.axis = Object.assign({}, theme.axis, { labelLimit: 110, titleLimit: 240 });
        }
        var embed = function (over) {
          var spec = fitted(given.specs[Number(place.dataset.figure)], room, over);
          return vegaEmbed(place, spec, { actions: false, ast: true, renderer: "svg", config: config, tooltip: { theme: dark.matches ? "dark" : "light" } });
        };
        embed(0)
          .then(function () {
            var drawn = place.querySelector("svg");
            var over = drawn ? drawn.getBoundingClientRect().width - room : 0;
            return over > 1 ? embed(over) : null;
          })
          .then(function () { place.dataset.drawn = "yes"; })
          .catch(function (error) { place.textContent = "The chart could not be drawn: " + error.message; });
      });
    };
    draw();
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
  }
})();
